// The row of dot: products of two tensors over contracted dimensions.
#include <algorithm>
#include <numeric>

#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

using Ints = std::vector<int64_t>;

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

// A product has the dimensions of `order` (of x); puts them where x has them.
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

struct Operand {
  Value value;
  const Ints &batch, &contract, &free;
};

// The gradient of x: the product of the cotangent and the other operand, in that order of the two
// that needs no transpose where there is one. Then what scatters or sums the gradient of a weight
// gives it as it is kept, and no step has to wait for it. `summed`: the cotangent's dimensions that
// the other operand has given.
Value gradient_of(const GradientCall& g, const Operand& x, const Operand& other,
                  const Ints& summed) {
  const Value ct = g.cotangents[0];
  const Ints batch = range(0, x.batch.size());
  const Ints contract = contract_by_other(x.contract, other.contract);
  const Ints order = joined(x.batch, x.free, contract);
  const bool fits = std::ranges::is_sorted(order);
  if (!fits && std::ranges::is_sorted(joined(x.batch, contract, x.free)))
    return dot_general(other.value, ct, {other.batch, batch, other.free, summed}, g.loc);
  return in_order_of(
      g, dot_general(ct, other.value, {batch, other.batch, summed, other.free}, g.loc), order);
}

std::vector<Value> dot_gradient(const GradientCall& g) {
  const Layout l = layout(g.node.attrs, g.inputs[0].rank(), g.inputs[1].rank());
  const Operand a{g.inputs[0], l.lhs_batch, l.lhs_contract, l.lhs_free};
  const Operand b{g.inputs[1], l.rhs_batch, l.rhs_contract, l.rhs_free};
  // The cotangent is [batch, lhs free, rhs free].
  const size_t batch = a.batch.size(), m = a.free.size(), n = b.free.size();
  return {gradient_of(g, a, b, range(batch + m, n)), gradient_of(g, b, a, range(batch, m))};
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
