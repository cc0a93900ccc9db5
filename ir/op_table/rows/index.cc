// Rows of the ops whose element positions are data: gather, scatter, windows, selection, sorting.
//
// An index out of range reads zeros and adds nothing: bad data never reaches foreign memory.
#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rows/vocabulary_parallel.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

Dims behind_first(const Type& type, size_t skip = 1) {
  return Dims(type.dims.begin() + static_cast<int64_t>(skip), type.dims.end());
}

std::vector<Type> take_type(const OpCall& call) {
  need_rank_min(call, 0, "table", 1);
  need_dtype(call, 1, "index", DType::kI32);
  return {{call.inputs[0].dtype, join(call.inputs[1].dims, behind_first(call.inputs[0]))}};
}

Factors take_factors(const OpCall& call) {
  const Type &table = call.inputs[0], &index = call.inputs[1];
  FactorList list(call);
  Factor& rows = list.add(FactorKind::kReduce, table.dims[0]);
  rows.input_dims[0] = 0;
  rows.distributed_op = kVocabularyParallel;
  for (int d = 0; d < index.rank(); ++d) {
    Factor& factor = list.add(FactorKind::kPass, index.dims[at(d)]);
    factor.input_dims[1] = factor.result_dims[0] = d;
  }
  for (int d = 1; d < table.rank(); ++d)
    list.add(FactorKind::kPass, table.dims[at(d)], d, index.rank() + d - 1);
  return list.take();
}

Values take_gradient(const GradientCall& g) {
  return {scatter_add(g.inputs[1], g.cotangents[0], g.inputs[0].dim(0), g.loc), Value()};
}

std::vector<Type> scatter_add_type(const OpCall& call) {
  const Type &index = call.inputs[0], &updates = call.inputs[1];
  need_dtype(call, 0, "index", DType::kI32);
  need_float(call, 1, "updates");
  bool ok = updates.rank() >= index.rank() &&
            std::equal(index.dims.begin(), index.dims.end(), updates.dims.begin());
  GW_NEED(call, ok, "updates must begin with the dimensions of index: index is ", to_string(index),
          ", updates is ", to_string(updates));
  int64_t rows = need_between(call, "rows", 0, kElementsMax);
  return {{updates.dtype, join({rows}, behind_first(updates, index.dims.size()))}};
}

Factors scatter_add_factors(const OpCall& call) {
  const Type &index = call.inputs[0], &updates = call.inputs[1];
  FactorList list(call);
  Factor& rows = list.add(FactorKind::kPass, call.attrs.integer("rows"));
  rows.result_dims[0] = 0;
  rows.distributed_op = kVocabularyParallel;
  for (int d = 0; d < index.rank(); ++d)
    list.add(FactorKind::kReduce, index.dims[at(d)]).input_dims = {d, d};
  for (int d = index.rank(); d < updates.rank(); ++d) {
    Factor& factor = list.add(FactorKind::kPass, updates.dims[at(d)]);
    factor.input_dims[1] = d;
    factor.result_dims[0] = d - index.rank() + 1;
  }
  return list.take();
}

std::vector<Type> dynamic_slice_type(const OpCall& call) {
  Type result = call.inputs[0];
  auto axis = static_cast<size_t>(need_axis(call, "axis", result));
  need_type(call, 1, "start", i32());
  result.dims[axis] = need_between(call, "size", 0, result.dims[axis]);
  return {result};
}

// Everything but `axis` passes, in operand and update alike; `start` is a scalar.
Factors window_factors(const OpCall& call) {
  FactorList list(call);
  bool is_update = call.op == Op::dynamic_update;
  for (int d = 0; d < call.inputs[0].rank(); ++d) {
    bool whole = d == call.attrs.integer("axis");
    int64_t size = call.inputs[0].dims[at(d)];
    list.add(whole ? FactorKind::kWhole : FactorKind::kPass, size, d, d);
    if (is_update) list.last().input_dims[1] = d;
  }
  return list.take();
}

Values dynamic_slice_gradient(const GradientCall& g) {
  Value zeros = constant_like(g.inputs[0], 0, g.loc);
  int axis = static_cast<int>(g.node.attrs.integer("axis"));
  return {dynamic_update(zeros, g.cotangents[0], g.inputs[1], axis, g.loc), Value()};
}

std::vector<Type> dynamic_update_type(const OpCall& call) {
  const Type &x = call.inputs[0], &update = call.inputs[1];
  auto axis = static_cast<size_t>(need_axis(call, "axis", x));
  need_type(call, 2, "start", i32());
  bool ok = update.rank() == x.rank() && update.dims[axis] <= x.dims[axis];
  Type expected = x;
  if (ok) expected.dims[axis] = update.dims[axis];
  GW_NEED(call, ok && update == expected, "update must equal the operand beside dim ", axis,
          ", where it is no longer: operand is ", to_string(x), ", update is ", to_string(update));
  return {x};
}

Values dynamic_update_gradient(const GradientCall& g) {
  Value ct = g.cotangents[0], update = g.inputs[1], start = g.inputs[2];
  int axis = static_cast<int>(g.node.attrs.integer("axis"));
  return {dynamic_update(ct, constant_like(update, 0, g.loc), start, axis, g.loc),
          dynamic_slice(ct, start, axis, update.dim(axis), g.loc), Value()};
}

std::vector<Type> top_k_type(const OpCall& call) {
  need_rank_min(call, 0, "operand", 1);
  need_number(call, 0, "operand");
  Type values = call.inputs[0];
  int64_t k = call.attrs.integer("k");
  GW_NEED(call, k >= 0 && k <= values.dims.back(), "k is out of range: got ", k,
          " for the last dimension of ", to_string(values));
  need_counts(call, DType::kI32, values.dims.back(), "the last dimension");
  values.dims.back() = k;
  return {values, values.with(DType::kI32)};
}

std::vector<Type> sort_type(const OpCall& call) {
  need_rank_min(call, 0, "operand", 1);
  need_number(call, 0, "operand");
  need_counts(call, DType::kI32, call.inputs[0].dims.back(), "the last dimension");
  return {call.inputs[0], call.inputs[0].with(DType::kI32)};
}

// Results [..., k] and indices into x [..., n]: every choice goes back to where it was taken from.
// A one-hot product, not a scatter: it keeps all leading dimensions free to be cut.
Values selection_gradient(const GradientCall& g) {
  if (g.cotangents[0].empty()) return {Value()};
  const Dims& dims = g.inputs[0].type().dims;
  int rank = g.inputs[0].rank();
  Dims wide = join(g.results[1].type().dims, {dims.back()});  // [..., k, n]
  std::vector<int64_t> map(at(rank));
  for (int d = 0; d < rank; ++d) map[at(d)] = d;
  Value position = iota(g.builder, i32(wide), rank, g.loc);
  Value chosen = eq(position, broadcast_in(g.results[1], wide, map, g.loc));
  Value ct = broadcast_in(g.cotangents[0], wide, map, g.loc);
  return {sum(where(chosen, ct, constant_like(ct, 0, g.loc)), {rank - 1}, g.loc)};
}

OpRow indexed(OpRow row) {
  row.family = OpFamily::kIndex;
  return row;
}

std::vector<OpRow> dynamic_window_rows() {
  const AttrSpec axis{"axis", AttrKind::kInt, {}, "the dimension of the window"};
  return {
      indexed({.op = Op::dynamic_slice,
               .name = "dynamic_slice",
               .inputs_min = 2,
               .inputs_max = 2,
               .attrs = {axis, {"size", AttrKind::kInt, {}, "of the window"}},
               .type_rule = dynamic_slice_type,
               .factors = window_factors,
               .linear = Linear::kAll,
               .keeps_zero = true,
               .gradient = dynamic_slice_gradient,
               .cost = per_result<0>,
               .doc = "(x, start): the window of `size` at the run-time start, which is clamped so "
                      "that it fits."}),
      indexed({.op = Op::dynamic_update,
               .name = "dynamic_update",
               .inputs_min = 3,
               .inputs_max = 3,
               .attrs = {axis},
               .type_rule = dynamic_update_type,
               .factors = window_factors,
               .linear = Linear::kAll,
               .keeps_zero = true,
               .gradient = dynamic_update_gradient,
               .cost = per_result<0>,
               .doc = "(x, update, start): x with the window at start replaced by update."}),
  };
}

std::vector<OpRow> lookup_rows() {
  return {
      indexed({.op = Op::take,
               .name = "take",
               .inputs_min = 2,
               .inputs_max = 2,
               .type_rule = take_type,
               .factors = take_factors,
               .linear = Linear::kFirst,
               .gradient = take_gradient,
               .cost = per_result<0>,
               .doc = "(table[n, ...], index i32[...]): rows of the table, [index..., ...]; an "
                      "index out of range gives zeros.",
               .distributed_ops = {vocabulary_take()}}),
      indexed({.op = Op::scatter_add,
               .name = "scatter_add",
               .inputs_min = 2,
               .inputs_max = 2,
               .attrs = {{"rows", AttrKind::kInt, {}, "the first size of the result"}},
               .type_rule = scatter_add_type,
               .factors = scatter_add_factors,
               .linear = Linear::kAll,
               .keeps_zero = true,  // Zeros are added to row 0.
               .gradient =
                   [](const GradientCall& g) {
                     return Values{Value(), gangway::take(g.cotangents[0], g.inputs[0], g.loc)};
                   },
               .cost = per_input<1>,
               .doc = "(index i32[...], updates[index..., ...]): sums of the updates of each row, "
                      "[rows, ...]; an index out of range adds nothing.",
               .distributed_ops = {vocabulary_scatter_add()}}),
  };
}

std::vector<OpRow> selection_rows() {
  return {
      indexed(
          {.op = Op::top_k,
           .name = "top_k",
           .results = 2,
           .attrs = {{"k", AttrKind::kInt, {}, "how many"}},
           .type_rule = top_k_type,
           .factors =
               [](const OpCall& c) { return einsum_factors(c, "...n -> ...k, ...k; whole nk"); },
           .gradient = selection_gradient,
           .cost = per_input<4>,
           .doc = "The k largest of the last dimension, descending, and their i32 indices; the "
                  "lower index first among equals, a NaN above every number."}),
      indexed({.op = Op::sort,
               .name = "sort",
               .results = 2,
               .type_rule = sort_type,
               .factors = last_whole_factors,
               .gradient = selection_gradient,
               .cost = per_input<16>,
               .doc = "The last dimension in ascending order, stable, NaN last, and where each "
                      "element came from (i32). Its gradient costs n^2 for n elements."}),
  };
}

}  // namespace

std::vector<OpRow> index_rows() {
  std::vector<OpRow> rows = dynamic_window_rows();
  for (const auto& more : {lookup_rows(), selection_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace gangway::internal
