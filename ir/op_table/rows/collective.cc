// Rows of the ops that exist in local functions only: what the partitioner inserts where producer
// and consumer are placed differently, and what distributed ops build loops of.
#include "ir/op_table/rows/collective.h"

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rule.h"
#include "ir/types/axis_list.h"
#include "ir/types/limits.h"
#include "ir/types/reduction.h"
#include "runtime/base/align.h"
#include "runtime/base/quote.h"

namespace gangway::internal {

void need_axis_list(const OpCall& call, std::string_view attr) {
  if (auto wrong = axes_mistake(call.attrs.text(attr))) refuse(call, attr, " ", *wrong);
}

void need_reduction(const OpCall& call) {
  const std::string& reduction = call.attrs.text("reduction");
  GW_NEED(call, parse_reduction(reduction).has_value(),
          "unknown reduction: expected sum, max or min, got ", quote(reduction));
}

int64_t need_parts(const OpCall& call) { return need_between(call, "parts", 1, kMeshDevicesMax); }

int64_t need_size(const OpCall& call, size_t dim, int64_t parts) {
  const int64_t size = need_between(call, "size", 0, kElementsMax);
  const Type& x = call.inputs[0];
  // A product of the two could overflow.
  GW_NEED(call, ceil_div(size, parts) <= x.dims[dim],
          "size is more than the parts hold: expected at ", "most ", parts, " times dim ", dim,
          " of ", to_string(x), ", got ", size);
  return size;
}

AttrSpec axes_attr() {
  return {"axes", AttrKind::kString, {}, "mesh axes, joined by commas, outer first"};
}
AttrSpec parts_attr() {
  return {"parts", AttrKind::kInt, {}, "how many devices meet along the axes"};
}
AttrSpec reduction_attr() {
  return {"reduction", AttrKind::kString, std::string("sum"), "sum, max or min"};
}

namespace {

std::vector<Type> all_reduce_type(const OpCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) need_number(call, i, "operand");
  need_reduction(call);
  need_axis_list(call, "axes");
  return {call.inputs.begin(), call.inputs.end()};
}

Factors all_reduce_factors(const OpCall& call) {
  return call.inputs.size() == 1 ? elementwise_factors(call) : whole_factors(call);
}

std::vector<Type> shard_slice_type(const OpCall& call) {
  Type result = call.inputs[0];
  auto dim = static_cast<size_t>(need_axis(call, "dim", result));
  result.dims[dim] = ceil_div(result.dims[dim], need_parts(call));
  need_axis_list(call, "axis");
  GW_NEED(call, split_axes(call.attrs.text("axis")).size() == 1, "axis must be one mesh axis: got ",
          quote(call.attrs.text("axis")));
  return {result};
}

std::vector<Type> keep_first_type(const OpCall& call) {
  need_number(call, 0, "operand");
  need_axis_list(call, "axes");
  return {call.inputs[0]};
}

std::vector<Type> axis_index_type(const OpCall& call) {
  need_axis_list(call, "axes");
  return {i32()};
}

OpRow all_reduce_row() {
  return {.op = Op::all_reduce,
          .name = "all_reduce",
          .family = OpFamily::kCollective,
          .inputs_max = -1,
          .results = -1,
          .attrs = {axes_attr(), reduction_attr()},
          .type_rule = all_reduce_type,
          .factors = all_reduce_factors,
          .linear = Linear::kAll,
          .meets = true,
          .no_gradient = kMadeLater,
          .cost = per_result<1>,
          .doc =
              "On every device the reduction of each operand over the n devices along the mesh "
              "axes. Of operands of B bytes each sends 2 B (n - 1) / n."};
}

}  // namespace

std::vector<OpRow> collective_rows() {
  return {
      all_reduce_row(),
      {.op = Op::shard_slice,
       .name = "shard_slice",
       .family = OpFamily::kCollective,
       .attrs = {{"axis", AttrKind::kString, {}, "the mesh axis"},
                 {"dim", AttrKind::kInt, {}, "the dimension that is cut"},
                 {"parts", AttrKind::kInt, {}, "the size of the mesh axis"}},
       .type_rule = shard_slice_type,
       .factors = whole_factors,
       .linear = Linear::kAll,
       .no_gradient = kMadeLater,
       .cost = per_result<0>,
       .doc = "This device's part, by its coordinate along the mesh axis, of a replicated tensor. "
              "Parts are of one size, rounded up: what lies behind the last row is zero. Nothing "
              "is sent."},
      {.op = Op::axis_index,
       .name = "axis_index",
       .family = OpFamily::kCollective,
       .inputs_min = 0,
       .inputs_max = 0,
       .attrs = {axes_attr()},
       .type_rule = axis_index_type,
       .factors = whole_factors,
       .no_gradient = kByDistributedOps,
       .cost = per_result<0>,
       .doc = "Which member this device is among those along the mesh axes, i32[]: 0 to n - 1 in "
              "row-major order over the axes as listed. Nothing is sent."},
      {.op = Op::keep_first,
       .name = "keep_first",
       .family = OpFamily::kCollective,
       .attrs = {axes_attr()},
       .type_rule = keep_first_type,
       .factors = elementwise_factors,
       .linear = Linear::kAll,
       .no_gradient = kMadeLater,
       .cost = per_result<0>,
       .doc = "A replicated tensor as terms of a sum: member 0 along the mesh axes keeps it, all "
              "others have zeros. Nothing is sent."},
  };
}

}  // namespace gangway::internal
