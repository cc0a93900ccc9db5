// The arithmetic of an all-reduce: the same piece of every member's tensor, combined in the order
// of the members.
//
// Threads: pure.
// Cost: one pass over the sources, in blocks that stay in the first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "executor/collectives/collective.h"

namespace gangway {

// out[i] = sources[0][i] op sources[1][i] op ...; out may be one of the sources. bf16 is combined
// in f32.
void reduce_ranks(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
                  std::byte* out, int64_t elements);

}  // namespace gangway
