// Rows of the ops that exist in local functions only: what the partitioner inserts where producer
// and consumer are placed differently.
#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

std::vector<Type> all_reduce_type(const OpCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) need_number(call, i, "operand");
  const std::string& reduction = call.attrs.text("reduction");
  need(call, reduction == "sum" || reduction == "max" || reduction == "min",
       "unknown reduction: expected sum, max or min, got \"", reduction, "\"");
  need(call, !call.attrs.text("axes").empty(), "axes is empty: expected names of mesh axes");
  return {call.inputs.begin(), call.inputs.end()};
}

Factors all_reduce_factors(const OpCall& call) {
  return call.inputs.size() == 1 ? elementwise_factors(call) : whole_factors(call);
}

std::vector<Type> shard_slice_type(const OpCall& call) {
  Type result = call.inputs[0];
  auto dim = static_cast<size_t>(need_axis(call, "dim", result));
  int64_t parts = need_between(call, "parts", 1, kElementsMax);
  need(call, result.dims[dim] % parts == 0, "dim ", dim, " cannot be cut in ", parts,
       " equal parts: operand is ", to_string(result));
  result.dims[dim] /= parts;
  return {result};
}

}  // namespace

std::vector<OpRow> collective_rows() {
  constexpr std::string_view kMadeLater = "the partitioner makes it, after differentiation";
  return {
      {.op = Op::all_reduce,
       .name = "all_reduce",
       .family = OpFamily::kCollective,
       .inputs_max = -1,
       .results = -1,
       .attrs = {{"axes", AttrKind::kString, {}, "mesh axes, joined by commas"},
                 {"reduction", AttrKind::kString, std::string("sum"), "sum, max or min"}},
       .type_rule = all_reduce_type,
       .factors = all_reduce_factors,
       .linear = Linear::kAll,
       .no_gradient = kMadeLater,
       .cost = per_result<1>,
       .doc =
           "On every device the reduction of each operand over the devices along the mesh axes."},
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
       .doc = "This device's part, by its coordinate along the mesh axis, of a replicated tensor."},
  };
}

}  // namespace gangway::internal
