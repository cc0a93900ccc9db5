// Rows of the reductions and of the running sum.
#include <algorithm>

#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

bool contains(const std::vector<int64_t>& axes, size_t d) {
  return std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
}

Type without(const Type& type, const std::vector<int64_t>& axes) {
  Type result{type.dtype, {}};
  for (size_t d = 0; d < type.dims.size(); ++d) {
    if (!contains(axes, d)) result.dims.push_back(type.dims[d]);
  }
  return result;
}

std::vector<Type> reduce_type(const OpCall& call) {
  need_number(call, 0, "operand");
  return {without(call.inputs[0], need_axes(call, "axes", call.inputs[0]))};
}

Factors reduce_over(const OpCall& call, const std::vector<int64_t>& axes, FactorKind kind) {
  FactorList list(call);
  int kept = 0;
  for (size_t d = 0; d < call.inputs[0].dims.size(); ++d) {
    bool reduced = contains(axes, d);
    list.add(reduced ? kind : FactorKind::kPass, call.inputs[0].dims[d], static_cast<int>(d),
             reduced ? -1 : kept++);
  }
  return list.take();
}

Factors sum_factors(const OpCall& call) {
  return reduce_over(call, call.attrs.ints("axes"), FactorKind::kReduce);
}
Factors extreme_factors(const OpCall& call) {
  return reduce_over(call, call.attrs.ints("axes"), FactorKind::kWhole);
}

// A value of the reduced shape, repeated over the reduced dimensions.
Value spread_back(const GradientCall& g, Value reduced, const std::vector<int64_t>& axes) {
  std::vector<int64_t> map;
  const Dims& dims = g.inputs[0].type().dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!contains(axes, d)) map.push_back(static_cast<int64_t>(d));
  }
  return broadcast_in(reduced, dims, map, g.loc);
}

Values sum_gradient(const GradientCall& g) {
  return {spread_back(g, g.cotangents[0], g.node.attrs.ints("axes"))};
}

Values extreme_gradient(const GradientCall& g) {
  const std::vector<int64_t>& axes = g.node.attrs.ints("axes");
  Value ct = g.cotangents[0];
  Value winner = convert(eq(g.inputs[0], spread_back(g, g.results[0], axes)), ct.dtype(), g.loc);
  Value winners = g.builder.emit1(Op::reduce_sum, {winner}, {{"axes", axes}}, g.loc);
  return {winner * spread_back(g, ct / winners, axes)};
}

std::vector<Type> extreme_type(const OpCall& call) {
  std::vector<Type> types = reduce_type(call);
  for (int64_t axis : call.attrs.ints("axes")) {
    GW_NEED(call, call.inputs[0].dims[static_cast<size_t>(axis)] > 0,
            "nothing to choose from: dim ", axis, " is 0 in ", to_string(call.inputs[0]));
  }
  return types;
}

std::vector<Type> argmax_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  need_number(call, 0, "operand");
  int64_t axis = need_axis(call, "axis", x);
  GW_NEED(call, x.dims[static_cast<size_t>(axis)] > 0, "nothing to choose from: dim ", axis,
          " is 0 in ", to_string(x));
  need_counts(call, DType::kI32, x.dims[static_cast<size_t>(axis)], cat("dim ", axis));
  return {without(x, {axis}).with(DType::kI32)};
}

Factors cumsum_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  factors[static_cast<size_t>(call.attrs.integer("axis"))].kind = FactorKind::kWhole;
  return factors;
}

// The adjoint of a running sum runs the other way: the sum of all minus what came before.
Values cumsum_gradient(const GradientCall& g) {
  Value ct = g.cotangents[0];
  int64_t axis = g.node.attrs.integer("axis");
  Value total = g.builder.emit1(Op::reduce_sum, {ct}, {{"axes", Dims{axis}}}, g.loc);
  Value all = spread_back(g, total, {axis});
  return {all - cumsum(ct, static_cast<int>(axis), g.loc) + ct};
}

OpRow reduction(Op op, std::string_view name, std::string_view doc) {
  return {.op = op,
          .name = name,
          .family = OpFamily::kReduce,
          .attrs = {{"axes", AttrKind::kInts, {}, "the dimensions that go, ascending"}},
          .type_rule = extreme_type,
          .factors = extreme_factors,
          .keeps_zero = true,  // The dimensions that go are whole.
          .gradient = extreme_gradient,
          .cost = per_input<1>,
          .doc = doc};
}

}  // namespace

std::vector<OpRow> reduce_rows() {
  OpRow sum = reduction(Op::reduce_sum, "reduce_sum",
                        "The sum over dimensions, in a fixed order; bf16 accumulates in f32.");
  sum.type_rule = reduce_type;
  sum.factors = sum_factors;
  sum.linear = Linear::kAll;
  sum.gradient = sum_gradient;
  return {
      sum,
      reduction(Op::reduce_max, "reduce_max",
                "The largest element over dimensions; equal ones share the gradient equally."),
      reduction(Op::reduce_min, "reduce_min",
                "The smallest element over dimensions; equal ones share the gradient equally."),
      {.op = Op::argmax,
       .name = "argmax",
       .family = OpFamily::kReduce,
       .attrs = {{"axis", AttrKind::kInt, {}, "the dimension that goes"}},
       .type_rule = argmax_type,
       .factors =
           [](const OpCall& call) {
             return reduce_over(call, {call.attrs.integer("axis")}, FactorKind::kWhole);
           },
       .keeps_zero = true,
       .no_gradient = "its result is an index",
       .cost = per_input<1>,
       .doc =
           "The i32 index of the largest element, the lowest among equals; a NaN is the largest."},
      {.op = Op::cumsum,
       .name = "cumsum",
       .family = OpFamily::kReduce,
       .attrs = {{"axis", AttrKind::kInt, {}, "the dimension to run along"}},
       .type_rule =
           [](const OpCall& call) {
             need_number(call, 0, "operand");
             need_axis(call, "axis", call.inputs[0]);
             return same_as_first(call);
           },
       .factors = cumsum_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .gradient = cumsum_gradient,
       .cost = per_input<1>,
       .doc = "The running sum, each element included."},
  };
}

}  // namespace gangway::internal
