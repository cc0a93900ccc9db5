#include "programs/strategies/expert_parallel.h"

namespace gangway::programs {
std::vector<std::string> axes_of_experts(const Mesh& mesh) {
  if (mesh.axis(kExpertAxis) < 0 && size_of(mesh, kModelAxis) > 1) return {std::string(kModelAxis)};
  return expert_axes(mesh);
}

Strategy expert_parallel(const MoeConfig& experts, const Mesh& mesh) {
  AxisPlacements weights, rows;
  for (const std::string& axis : axes_of_experts(mesh)) {
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
