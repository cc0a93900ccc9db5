#include "programs/strategies/expert_parallel.h"

namespace gangway::programs {

Strategy expert_parallel(const MoeConfig& experts) {
  const std::string axis(kExpertAxis);
  const bool is_dropless = experts.capacity_factor <= 0;
  const int priority = is_dropless ? kBatchPriority : kComputePriority;
  Strategy strategy;
  strategy.parameters = {{"*.moe.up|*.moe.gate|*.moe.down", {{axis, shard(0)}}, priority}};
  if (!is_dropless) strategy.activations = {{"moe.rows", {{axis, shard(1)}}, kComputePriority}};
  return strategy;
}

}  // namespace gangway::programs
