#include "programs/strategies/expert_parallel.h"

namespace gangway::programs {

Strategy expert_parallel() {
  return {.name = "expert_parallel",
          .parameters = {{"*.moe.up|*.moe.gate|*.moe.down",
                          {{std::string(kExpertAxis), shard(0)}},
                          kComputePriority}}};
}

}  // namespace gangway::programs
