#include "programs/strategies/context_parallel.h"

namespace gangway::programs {

Strategy context_parallel() {
  const std::string axis(kContextAxis);
  return {.batch = {{axis, shard(1)}},
          .parameters = {{"pos", {{axis, shard(0)}}, kComputePriority}}};
}

}  // namespace gangway::programs
