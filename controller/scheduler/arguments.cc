#include "controller/scheduler/arguments.h"

namespace gangway {

void bind_arguments(RunRecord& run, ObjectTable& objects) {
  const Plan& plan = *run.plan->plan;
  const RunFrame& request = run.request;
  GW_REQUIRE(request.source_positions.size() == plan.sources.size(), "run of \"", plan.name,
             "\": expected ", plan.sources.size(), " source positions, got ",
             request.source_positions.size());
  for (const uint64_t position : request.source_positions) {
    GW_REQUIRE(position < kSourcePositionMax, "run of \"", plan.name,
               "\": expected positions of sources below ", kSourcePositionMax, ", got ", position);
  }
  std::vector<bool> given(plan.inputs.size(), false);
  for (const ArgumentFrame& argument : request.arguments) {
    GW_REQUIRE(argument.input < plan.inputs.size() && !given[argument.input], "run of \"",
               plan.name, "\": input ", argument.input, " does not exist or is given twice");
    given[argument.input] = true;
    const PlanValue& input = plan.values[plan.inputs[argument.input]];
    if (!argument.bytes.empty()) {
      GW_REQUIRE(static_cast<int64_t>(argument.bytes.size()) == input.type.bytes(), "run of \"",
                 plan.name, "\": input \"", input.name, "\": expected ", to_string(input.type),
                 ", got ", argument.bytes.size(), " bytes");
      continue;
    }
    const ArrayRecord& array = objects.find(argument.array, run.session);
    const Mesh& mesh = plan.slices[input.slice].mesh;
    const auto& layout = run.plan->layouts[input.slice];
    const bool is_here = array.layout == layout || array.layout->lies_like(*layout);
    GW_REQUIRE(array.type == input.type && array.mesh == mesh && array.sharding == input.sharding &&
                   is_here,
               "run of \"", plan.name, "\": input \"", input.name, "\": expected ",
               to_string(input.type), " ", to_string(mesh, input.sharding), ", got ",
               to_string(array.type), " ", to_string(array.mesh, array.sharding),
               is_here ? "" : " on other devices");
    if (array.maker != RunId()) run.makers.push_back(array.maker);
    objects.keep(argument.array);
    run.kept.push_back(argument.array);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    GW_REQUIRE(given[i], "run of \"", plan.name, "\": input \"", plan.values[plan.inputs[i]].name,
               "\" is missing");
  }
}

void add_outputs(RunRecord& run, ObjectTable& objects) {
  const Plan& plan = *run.plan->plan;
  const RunFrame& request = run.request;
  GW_REQUIRE(request.outputs.size() == plan.outputs.size(), "run of \"", plan.name, "\": expected ",
             plan.outputs.size(), " outputs, got ", request.outputs.size());
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const PlanValue& value = plan.values[plan.outputs[i]];
    objects.add(request.outputs[i], {.owner = run.session,
                                     .maker = run.id,
                                     .layout = run.plan->layouts[value.slice],
                                     .type = value.type,
                                     .mesh = plan.slices[value.slice].mesh,
                                     .sharding = value.sharding,
                                     .users = 1});
    run.kept.push_back(request.outputs[i]);
  }
}

}  // namespace gangway
