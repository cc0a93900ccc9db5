#include "programs/strategies/context_parallel.h"

namespace gangway::programs {

Strategy context_parallel() {
  return {.name = "context_parallel", .batch = {{std::string(kContextAxis), shard(1)}}};
}

}  // namespace gangway::programs
