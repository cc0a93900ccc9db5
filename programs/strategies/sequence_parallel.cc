#include "programs/strategies/sequence_parallel.h"

namespace gangway::programs {

Strategy sequence_parallel() {
  const AxisPlacements by_position = {{std::string(kModelAxis), shard(1)}};
  return {.parameters = {{"pos", {{std::string(kModelAxis), shard(0)}}, kComputePriority}},
          .activations = {{"embedded", by_position, kComputePriority},
                          {"residual", by_position, kComputePriority}}};
}

}  // namespace gangway::programs
