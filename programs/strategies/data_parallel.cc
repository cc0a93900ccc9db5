#include "programs/strategies/data_parallel.h"

namespace gangway::programs {

Strategy data_parallel(const Mesh& mesh) {
  Strategy strategy;
  for (const std::string& axis : batch_axes(mesh)) strategy.batch.emplace_back(axis, shard(0));
  return strategy;
}

}  // namespace gangway::programs
