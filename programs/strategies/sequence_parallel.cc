#include "programs/strategies/sequence_parallel.h"

namespace gangway::programs {

Strategy sequence_parallel() {
  const AxisPlacements by_position = {{std::string(kModelAxis), shard(1)}};
  return {.name = "sequence_parallel",
          .activations = {{"embedded", by_position, kComputePriority},
                          {"residual", by_position, kComputePriority}}};
}

}  // namespace gangway::programs
