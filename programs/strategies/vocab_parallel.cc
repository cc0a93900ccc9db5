#include "programs/strategies/vocab_parallel.h"

namespace gangway::programs {

Strategy vocab_parallel() {
  const std::string axis(kModelAxis);
  return {.parameters = {{"embed", {{axis, shard(0)}}, kComputePriority},
                         {"head", {{axis, shard(1)}}, kComputePriority}}};
}

}  // namespace gangway::programs
