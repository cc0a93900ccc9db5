// What the kernels of grouped products are told: a plain struct that the host and the kernels
// share.
#pragma once

#include "executor/devices/cuda/kernels/tiled/both_sides.h"

namespace gangway::cuda {

inline constexpr int kGroupedSide = 64;      // A block sums 64 x 64 elements,
inline constexpr int kGroupedThreads = 256;  // 4 x 4 by each thread.

// As GroupedMatmulDesc. `transposed`: rows meet w[e]^T (the gradient of the input).
struct GroupedSize {
  int64_t groups = 0, slots = 0, experts = 0, d = 0, h = 0;
  bool transposed = false;
};

// Enough for the tiles of any one group: each expert may leave one unfilled, and so may what is of
// no expert.
GW_BOTH int64_t grouped_row_tiles(int64_t slots, int64_t experts) {
  return slots / kGroupedSide + experts + 1;
}
GW_BOTH int64_t grouped_tiles(int64_t n) { return (n + kGroupedSide - 1) / kGroupedSide; }

}  // namespace gangway::cuda
