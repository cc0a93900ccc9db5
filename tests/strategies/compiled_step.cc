#include "tests/strategies/compiled_step.h"

#include <algorithm>

#include "controller/plans/lower.h"

namespace gangway::programs {

Function local_function(const Program& program, const std::vector<uint32_t>& host_of) {
  const auto devices = static_cast<uint32_t>(program.slices.at(0).mesh.devices());
  std::vector<PlanRange> ranges = {{0, 0, devices}};
  if (!host_of.empty()) ranges.clear();
  for (uint32_t device = 0; device < host_of.size(); ++device)
    ranges.push_back({host_of[device], device, 1});
  CompileCache cache;
  const Plan plan = lower(program, {.slices = {ranges}, .hosts = {"host-0", "host-1"}}, cache);
  GW_REQUIRE(plan.functions.size() > 0, "the program calls nothing");
  const auto call =
      std::ranges::find_if(plan.nodes, [](const PlanNode& node) { return node.function != kNone; });
  return *plan.functions.at(call->function).function;
}

Function compiled_step(const std::string& strategy, const Mesh& mesh, LanguageModelConfig config,
                       const std::vector<uint32_t>& host_of) {
  if (config.text.empty()) config.text = "/a/text";
  return local_function(train_step(config, mesh, strategy_of(strategy, mesh, config.model)),
                        host_of);
}

}  // namespace gangway::programs
