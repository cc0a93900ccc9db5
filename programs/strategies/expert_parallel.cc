#include "programs/strategies/expert_parallel.h"

namespace gangway::programs {

Strategy expert_parallel(const MoeConfig& experts) {
  const std::string axis(kExpertAxis);
  Strategy strategy;
  strategy.parameters = {{"*.moe.up|*.moe.gate|*.moe.down", {{axis, shard(0)}}, kComputePriority}};
  if (experts.capacity_factor > 0)
    strategy.activations = {{"moe.rows", {{axis, shard(1)}}, kComputePriority}};
  return strategy;
}

}  // namespace gangway::programs
