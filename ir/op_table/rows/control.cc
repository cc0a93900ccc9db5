// Rows of the ops that change how a graph is differentiated, scheduled or fused, not what it
// computes.
#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/graph/function.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"
#include "ir/types/limits.h"
#include "ir/types/sharding.h"
#include "runtime/base/quote.h"

namespace gangway::internal {
namespace {

Values pass_through(const GradientCall& g) { return {g.cotangents[0]}; }

OpRow identity(Op op, std::string_view name, std::string_view doc) {
  return {.op = op,
          .name = name,
          .family = OpFamily::kControl,
          .type_rule = same_as_first,
          .factors = elementwise_factors,
          .linear = Linear::kAll,
          .keeps_zero = true,
          .gradient = pass_through,
          .cost = per_result<0>,
          .doc = doc};
}

std::vector<Type> constrain_type(const OpCall& call) {
  const std::string& text = call.attrs.text("placements");
  const std::optional<AxisPlacements> placements = parse_axis_placements(text);
  GW_NEED(call, placements.has_value(),
          "placements can't be read: expected such as \"data: shard(0), model: replicate\", got ",
          quote(text));
  const Type& x = call.inputs[0];
  for (const auto& [axis, placement] : *placements) {
    GW_NEED(call, !is_partial(placement), "axis ", quote(axis),
            " is partial: expected a cut or a copy");
    const bool fits = placement.kind != PlacementKind::kShard || placement.dim < x.rank();
    GW_NEED(call, fits, "axis ", quote(axis), " cuts dimension ", placement.dim, ": ", to_string(x),
            " has ", x.rank(), " dimensions");
  }
  need_between(call, "priority", 0, kAnnotationPriorityMax);
  return {x};
}

// The sum of a value's cotangents is placed where the value is.
Values constrain_gradient(const GradientCall& g) {
  return {g.builder.emit1(Op::constrain, {g.cotangents[0]}, g.node.attrs, g.loc)};
}

std::vector<Type> timed_type(const OpCall& call) {
  need_between(call, "microseconds", 0, 60'000'000);
  return {call.inputs[0]};
}

std::vector<Type> custom_call_type(const OpCall& call) {
  GW_NEED(call, !call.attrs.text("path").empty(), "path is empty: expected a shared library's");
  GW_NEED(call, !call.attrs.text("symbol").empty(), "symbol is empty: expected a function's name");
  DType dtype = call.attrs.dtype("dtype");
  return {{dtype, need_dims(call, "dims", dtype)}};
}

std::vector<Type> fusion_type(const OpCall& call) {
  GW_NEED(call, call.body != nullptr, "the fused function is missing");
  const Function& body = *call.body;
  GW_NEED(
      call,
      body.parameters.size() == call.inputs.size() && body.types.size() >= body.parameters.size(),
      "the fused function has ", body.parameters.size(), " parameters, got ", call.inputs.size(),
      " operands");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    GW_NEED(call, body.types[i] == call.inputs[i], "operand ", i, " does not fit: expected ",
            to_string(body.types[i]), ", got ", to_string(call.inputs[i]));
  }
  std::vector<Type> types;
  for (ValueId result : body.results) {
    GW_NEED(call, result < body.types.size(), "the fused function returns value %", result,
            ", which does not exist");
    types.push_back(body.types[result]);
  }
  return types;
}

Cost fusion_cost(const OpCall& call) {
  Cost cost{0, bytes_moved(call)};
  for (const Node& node : call.body->nodes) {
    const std::vector<Type> inputs = input_types(*call.body, node);
    cost.flops += row(node.op).cost({node.op, inputs, node.attrs, node.body.get()}).flops;
  }
  return cost;
}

}  // namespace

std::vector<OpRow> control_rows() {
  OpRow stop = identity(Op::stop_gradient, "stop_gradient",
                        "x; its gradient is 0: nothing flows back through x.");
  stop.gradient = [](const GradientCall&) { return Values{Value()}; };
  OpRow timed = identity(Op::timed, "timed",
                         "x, after keeping its device busy for a given time: for tests of the "
                         "control plane.");
  timed.type_rule = timed_type;
  timed.keeps_its_place = true;
  timed.busy_ns = [](const Attrs& attrs) { return attrs.integer("microseconds") * 1000; };
  timed.attrs = {{"microseconds", AttrKind::kInt, {}, "how long"}};
  OpRow constrain =
      identity(Op::constrain, "constrain",
               "x, placed as the user says on the mesh axes that are named; on others "
               "it is open. Its cotangent is placed the same way.");
  constrain.attrs = {
      {"placements", AttrKind::kString, {}, "\"data: shard(0), model: replicate\""},
      {"priority", AttrKind::kInt, int64_t{0}, "annotations of lower priority decide first"}};
  constrain.type_rule = constrain_type;
  constrain.gradient = constrain_gradient;
  OpRow barrier = identity(Op::barrier, "barrier",
                           "x; passes do not look through it, so what is computed from it is not "
                           "merged with what is computed from x.");
  barrier.shares_buffer = true;
  barrier.keeps_its_place = true;
  return {
      stop,
      barrier,
      timed,
      constrain,
      {.op = Op::custom_call,
       .name = "custom_call",
       .family = OpFamily::kControl,
       .inputs_min = 0,
       .inputs_max = -1,
       .attrs = {{"path", AttrKind::kString, {}, "where the shared library is, on every host"},
                 {"library", AttrKind::kString, {}, "content hash of the shared library"},
                 {"symbol", AttrKind::kString, {}, "the function in it"},
                 {"dims", AttrKind::kInts, {}, "the result's sizes"},
                 {"dtype", AttrKind::kDType, {}, "the result's element type"}},
       .type_rule = custom_call_type,
       .factors = whole_factors,
       .keeps_its_place = true,
       .no_gradient = "the derivative of a user's kernel is not known",
       .cost = per_result<1>,
       .doc = "A user's kernel: a function with the interface of ir/build/user_kernel.h, from a "
              "shared "
              "library whose content has the given hash."},
      {.op = Op::fusion,
       .name = "fusion",
       .family = OpFamily::kControl,
       .inputs_min = 0,
       .inputs_max = -1,
       .results = -1,
       .type_rule = fusion_type,
       .factors = whole_factors,
       .no_gradient = "it is added after differentiation",
       .cost = fusion_cost,
       .doc = "A chain of element-wise ops as one kernel; its body is a function."},
  };
}

}  // namespace gangway::internal
