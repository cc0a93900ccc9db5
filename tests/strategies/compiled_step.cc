#include "tests/strategies/compiled_step.h"

#include <algorithm>

#include "controller/lowering/lower.h"

namespace gangway::programs {

Function local_function(const Program& program) {
  const auto devices = static_cast<uint32_t>(program.slices.at(0).mesh.devices());
  CompileCache cache;
  const Plan plan = lower(program, {.slices = {{{0, 0, devices}}}, .hosts = {"host"}}, cache);
  GW_REQUIRE(plan.functions.size() > 0, "the program calls nothing");
  const auto call =
      std::ranges::find_if(plan.nodes, [](const PlanNode& node) { return node.function != kNone; });
  return *plan.functions.at(call->function).function;
}

Function compiled_step(const std::string& strategy, const Mesh& mesh, LanguageModelConfig config) {
  if (config.text.empty()) config.text = "/a/text";
  return local_function(train_step(config, mesh, strategy_of(strategy, mesh, config.model)));
}

}  // namespace gangway::programs
