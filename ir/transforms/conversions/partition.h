// Global function -> local function of one device: types become local, and where a producer's
// sharding differs from what a consumer requires, a conversion is inserted. The conversion is the
// collective:
//
//   partial   -> replicate   all_reduce
//   replicate -> shard       shard_slice, without traffic
//   partial   -> shard       kUnimplemented, with the user's line, as are the next two
//   shard     -> replicate
//   shard(i)  -> shard(j)
//
// Constants and broadcasts are computed again instead. Each value is converted once for each
// placement wanted. Results never stay partial.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway {

struct Partitioned {
  Function function;
  std::vector<Sharding> result_shardings;
};

// `wanted[r]`: the sharding of result r, or an empty one for what propagation gave (partial becomes
// replicate).
Partitioned partition(const Function& global, const Propagation& propagation,
                      const std::vector<Sharding>& parameter_shardings,
                      const std::vector<Sharding>& wanted);

}  // namespace gangway
