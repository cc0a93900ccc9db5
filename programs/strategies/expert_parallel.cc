#include "programs/strategies/expert_parallel.h"

namespace gangway::programs {

Strategy expert_parallel(const MoeConfig& experts, const Mesh& mesh) {
  AxisPlacements weights, rows;
  for (const std::string& axis : expert_axes(mesh)) {
    weights.emplace_back(axis, shard(0));
    rows.emplace_back(axis, shard(1));
  }
  const bool is_dropless = experts.capacity_factor <= 0;
  const int priority = is_dropless ? kBatchPriority : kComputePriority;
  Strategy strategy;
  strategy.parameters = {{"*.moe.up|*.moe.gate|*.moe.down", weights, priority}};
  if (!is_dropless) strategy.activations = {{"moe.rows", rows, kComputePriority}};
  return strategy;
}

}  // namespace gangway::programs
