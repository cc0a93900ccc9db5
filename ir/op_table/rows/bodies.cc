// Rows of the ops that run a function of their own, their body: scan and call.
#include "ir/graph/bodies.h"
#include "ir/build/body_gradient.h"
#include "ir/build/builder.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rule.h"
#include "ir/types/limits.h"

namespace gangway::internal {
namespace {

void need_body(const OpCall& call) {
  GW_NEED(call, call.body != nullptr, "the body is missing");
  const Function& body = *call.body;
  GW_NEED(
      call,
      body.parameters.size() == call.inputs.size() && body.types.size() >= body.parameters.size(),
      "the body has ", body.parameters.size(), " parameters, got ", call.inputs.size(),
      " operands");
  for (ValueId result : body.results) {
    GW_NEED(call, result < body.types.size(), "the body returns value %", result,
            ", which does not exist");
  }
}

// `seen`: what the body sees of operand i.
void need_parameter(const OpCall& call, size_t i, const Type& seen) {
  GW_NEED(call, call.body->types[i] == seen, "operand ", i, " does not fit: parameter \"",
          call.body->parameters[i].name, "\" of the body is ", to_string(call.body->types[i]),
          ", got ", to_string(call.inputs[i]));
}

const Type& result_type(const OpCall& call, size_t r) {
  return call.body->types[call.body->results[r]];
}

std::vector<Type> call_type(const OpCall& call) {
  need_body(call);
  for (size_t i = 0; i < call.inputs.size(); ++i) need_parameter(call, i, call.inputs[i]);
  std::vector<Type> types;
  for (size_t r = 0; r < call.body->results.size(); ++r) types.push_back(result_type(call, r));
  return types;
}

// Type of a stacked operand's slice in one iteration.
Type slice_of(const OpCall& call, size_t i, int64_t length) {
  Type type = call.inputs[i];
  GW_NEED(call, type.rank() > 0 && type.dims[0] == length, "stacked operand ", i,
          " must have a row for each of ", length, " iterations: got ", to_string(type));
  type.dims.erase(type.dims.begin());
  return type;
}

std::vector<Type> scan_type(const OpCall& call) {
  need_between(call, "length", 0, kScanLengthMax);
  const auto operands = static_cast<int64_t>(call.inputs.size());
  const int64_t carried = need_between(call, "carries", 0, operands);
  const int64_t shared = need_between(call, "invariants", 0, operands - carried);
  need_between(call, "ahead", 0, carried);
  need_between(call, "next", 0, operands - carried - shared);
  need_body(call);
  const ScanLayout scan(call.attrs);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    need_parameter(call, i,
                   i < scan.first_stacked() ? call.inputs[i] : slice_of(call, i, scan.length));
  }
  const size_t results = call.body->results.size();
  GW_NEED(call, results >= scan.carries, "the body must give ", scan.carries, " carries, got ",
          results, " results");
  std::vector<Type> types;
  for (size_t r = 0; r < results; ++r) {
    types.push_back(result_type(call, r));
    if (r < scan.carries) {
      GW_NEED(call, types[r] == call.inputs[r], "carry ", r, ", \"", call.body->parameters[r].name,
              "\", changes its type: it enters an iteration as ", to_string(call.inputs[r]),
              " and leaves it as ", to_string(types[r]));
    } else {
      types[r].dims.insert(types[r].dims.begin(), scan.length);
    }
  }
  return types;
}

// Cost of one execution of the body.
Cost body_cost(const OpCall& call) {
  Cost cost;
  for (const Node& node : call.body->nodes) {
    const std::vector<Type> inputs = input_types(*call.body, node);
    const Cost of = row(node.op).cost({node.op, inputs, node.attrs, node.body.get()});
    cost.flops += of.flops;
    cost.bytes += of.bytes;
  }
  return cost;
}

Cost scan_cost(const OpCall& call) {
  const auto times = static_cast<double>(call.attrs.integer("length"));
  const Cost once = body_cost(call);
  return {times * once.flops, times * once.bytes};
}

}  // namespace

std::vector<OpRow> body_rows() {
  return {
      {.op = Op::scan,
       .name = "scan",
       .family = OpFamily::kControl,
       .inputs_min = 0,
       .inputs_max = -1,
       .results = -1,
       .attrs = {{"length", AttrKind::kInt, {}, "how many iterations"},
                 {"carries", AttrKind::kInt, {}, "how many operands are carries"},
                 {"invariants", AttrKind::kInt, int64_t{0}, "how many behind them are invariants"},
                 {"reverse", AttrKind::kBool, false, "the last slices come first"},
                 {"ahead", AttrKind::kInt, int64_t{0},
                  "local: how many of the last carries are made for the next iteration"},
                 {"next", AttrKind::kInt, int64_t{0},
                  "local: how many of the last stacked operands show its slices"}},
       .type_rule = scan_type,
       .factors = whole_factors,
       .repeats_body = true,
       .gradient = body_gradient,
       .cost = scan_cost,
       .doc =
           "Its body once for each slice of the stacked operands (carries, invariants, stacked), "
           "each iteration with the carries that the one before gave; the last carries, then "
           "what each iteration gave beside them, stacked. The gradient is a scan the other way "
           "round."},
      {.op = Op::call,
       .name = "call",
       .family = OpFamily::kControl,
       .inputs_min = 0,
       .inputs_max = -1,
       .results = -1,
       .type_rule = call_type,
       .factors = whole_factors,
       .gradient = body_gradient,
       .cost = body_cost,
       .doc = "Its body, a function that other calls may share."},
  };
}

}  // namespace gangway::internal
