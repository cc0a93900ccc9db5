// The row of dot: products of two tensors over contracted dimensions.
#include <algorithm>
#include <numeric>

#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

using Ints = std::vector<int64_t>;

size_t at(int64_t dim) { return static_cast<size_t>(dim); }

// The dimensions of an operand that are neither batch nor contracted, ascending.
Ints free_dims(int rank, const Ints& batch, const Ints& contract) {
  Ints free;
  for (int64_t d = 0; d < rank; ++d) {
    bool used = std::count(batch.begin(), batch.end(), d) > 0 ||
                std::count(contract.begin(), contract.end(), d) > 0;
    if (!used) free.push_back(d);
  }
  return free;
}

struct Layout {
  Ints lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free;
};

Layout layout(const Attrs& attrs, int lhs_rank, int rhs_rank) {
  Layout l{attrs.ints("lhs_batch"),
           attrs.ints("rhs_batch"),
           attrs.ints("lhs_contract"),
           attrs.ints("rhs_contract"),
           {},
           {}};
  l.lhs_free = free_dims(lhs_rank, l.lhs_batch, l.lhs_contract);
  l.rhs_free = free_dims(rhs_rank, l.rhs_batch, l.rhs_contract);
  return l;
}

void need_distinct(const OpCall& call, std::string_view side, const Type& type, const Ints& batch,
                   const Ints& contract) {
  Ints all = batch;
  all.insert(all.end(), contract.begin(), contract.end());
  std::sort(all.begin(), all.end());
  bool ok = std::adjacent_find(all.begin(), all.end()) == all.end() &&
            (all.empty() || (all.front() >= 0 && all.back() < type.rank()));
  GW_NEED(call, ok, side, " batch and contract must name distinct dimensions of ", to_string(type),
          ": got ", to_string(batch), " and ", to_string(contract));
}

void need_equal_sizes(const OpCall& call, std::string_view what, const Ints& lhs, const Ints& rhs) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  GW_NEED(call, lhs.size() == rhs.size(), what, " dimensions differ in number: lhs has ",
          to_string(lhs), " in ", to_string(a), ", rhs has ", to_string(rhs), " in ", to_string(b));
  for (size_t i = 0; i < lhs.size(); ++i) {
    GW_NEED(call, a.dims[at(lhs[i])] == b.dims[at(rhs[i])], what, " sizes differ: lhs dim ", lhs[i],
            " is ", a.dims[at(lhs[i])], " in ", to_string(a), ", rhs dim ", rhs[i], " is ",
            b.dims[at(rhs[i])], " in ", to_string(b));
  }
}

std::vector<Type> dot_type(const OpCall& call) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  need_float(call, 0, "lhs");
  need_same_dtype(call, 0, "lhs", 1, "rhs");
  const Attrs& attrs = call.attrs;
  need_distinct(call, "lhs", a, attrs.ints("lhs_batch"), attrs.ints("lhs_contract"));
  need_distinct(call, "rhs", b, attrs.ints("rhs_batch"), attrs.ints("rhs_contract"));
  Layout l = layout(attrs, a.rank(), b.rank());
  need_equal_sizes(call, "batch", l.lhs_batch, l.rhs_batch);
  need_equal_sizes(call, "contracted", l.lhs_contract, l.rhs_contract);
  Type result{a.dtype, {}};
  for (int64_t d : l.lhs_batch) result.dims.push_back(a.dims[at(d)]);
  for (int64_t d : l.lhs_free) result.dims.push_back(a.dims[at(d)]);
  for (int64_t d : l.rhs_free) result.dims.push_back(b.dims[at(d)]);
  return {result};
}

Factors dot_factors(const OpCall& call) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  Layout l = layout(call.attrs, a.rank(), b.rank());
  FactorList list(call);
  int result_dim = 0;
  auto add = [&](FactorKind kind, int64_t size, int64_t lhs, int64_t rhs) {
    Factor& factor = list.add(kind, size);
    factor.input_dims = {static_cast<int>(lhs), static_cast<int>(rhs)};
    if (kind == FactorKind::kPass) factor.result_dims[0] = result_dim++;
  };
  for (size_t i = 0; i < l.lhs_batch.size(); ++i)
    add(FactorKind::kPass, a.dims[at(l.lhs_batch[i])], l.lhs_batch[i], l.rhs_batch[i]);
  for (int64_t d : l.lhs_free) add(FactorKind::kPass, a.dims[at(d)], d, -1);
  for (int64_t d : l.rhs_free) add(FactorKind::kPass, b.dims[at(d)], -1, d);
  for (size_t i = 0; i < l.lhs_contract.size(); ++i)
    add(FactorKind::kReduce, a.dims[at(l.lhs_contract[i])], l.lhs_contract[i], l.rhs_contract[i]);
  return list.take();
}

Ints range(size_t from, size_t count) {
  Ints dims(count);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(from));
  return dims;
}

// What dot_general(ct, other) leaves has the dimensions of `order` (of x); puts them where x has
// them.
Value in_order_of(const GradientCall& g, Value product, const Ints& order) {
  Ints permutation(order.size());
  for (size_t i = 0; i < order.size(); ++i) permutation[at(order[i])] = static_cast<int64_t>(i);
  if (std::is_sorted(permutation.begin(), permutation.end())) return product;
  return transpose(product, permutation, g.loc);
}

// The contracted dimensions of x in the order in which they appear in `other`, which is the order
// that a product over everything else leaves them in.
Ints contract_by_other(const Ints& x_contract, const Ints& other_contract) {
  std::vector<size_t> order(x_contract.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return other_contract[a] < other_contract[b]; });
  Ints result;
  for (size_t i : order) result.push_back(x_contract[i]);
  return result;
}

Ints joined(Ints a, const Ints& b, const Ints& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

std::vector<Value> dot_gradient(const GradientCall& g) {
  Value a = g.inputs[0], b = g.inputs[1], ct = g.cotangents[0];
  Layout l = layout(g.node.attrs, a.rank(), b.rank());
  size_t batch = l.lhs_batch.size(), m = l.lhs_free.size(), n = l.rhs_free.size();
  // ct is [batch, lhs free, rhs free].
  Value da =
      dot_general(ct, b, {range(0, batch), l.rhs_batch, range(batch + m, n), l.rhs_free}, g.loc);
  Value db = dot_general(ct, a, {range(0, batch), l.lhs_batch, range(batch, m), l.lhs_free}, g.loc);
  Ints da_order =
      joined(l.lhs_batch, l.lhs_free, contract_by_other(l.lhs_contract, l.rhs_contract));
  Ints db_order =
      joined(l.rhs_batch, l.rhs_free, contract_by_other(l.rhs_contract, l.lhs_contract));
  return {in_order_of(g, da, da_order), in_order_of(g, db, db_order)};
}

Cost dot_cost(const OpCall& call) {
  double contracted = 1;
  for (int64_t d : call.attrs.ints("lhs_contract"))
    contracted *= static_cast<double>(call.inputs[0].dims[at(d)]);
  return {2 * contracted * result_elements(call), bytes_moved(call)};
}

}  // namespace

std::vector<OpRow> dot_rows() {
  return {{.op = Op::dot,
           .name = "dot",
           .family = OpFamily::kDot,
           .inputs_min = 2,
           .inputs_max = 2,
           .attrs = {{"lhs_batch", AttrKind::kInts, Ints{}, "dimensions common to both and kept"},
                     {"rhs_batch", AttrKind::kInts, Ints{}, "the same of rhs, pairwise"},
                     {"lhs_contract", AttrKind::kInts, {}, "dimensions summed over"},
                     {"rhs_contract", AttrKind::kInts, {}, "the same of rhs, pairwise"}},
           .type_rule = dot_type,
           .factors = dot_factors,
           .linear = Linear::kEach,
           .keeps_zero = true,
           .gradient = dot_gradient,
           .cost = dot_cost,
           .doc = "Sums of products. Result: batch, free dimensions of lhs, free ones of rhs; bf16 "
                  "accumulates in f32."}};
}

}  // namespace gangway::internal
