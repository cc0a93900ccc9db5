// The arguments of the kernels of grouped products: a plain struct that the host and the kernels
// share.
#pragma once

#include "executor/devices/cuda/kernels/tiled/both_sides.h"

namespace gangway::cuda {

inline constexpr int kGroupedThreads = 256;
// A block sums side x side elements: 4 x 4 by each thread, or 64 x 32 by each warp of a matrix
// unit.
inline constexpr int kGroupedSide = 64;
inline constexpr int kMatrixUnitSide = 128;

// See GroupedMatmulDesc. `transposed`: rows meet w[e]^T (the gradient of the input).
struct GroupedSize {
  int64_t groups = 0, slots = 0, experts = 0, d = 0, h = 0;
  int64_t capacity = 0;  // Above 0 sizes are not read.
  int64_t side = kGroupedSide;
  bool transposed = false;
};

GW_BOTH int64_t grouped_tiles(int64_t n, int64_t side) { return (n + side - 1) / side; }
// Enough tiles for the rows of any one group: each expert may leave one tile unfilled, and so may
// the rows of no expert.
GW_BOTH int64_t grouped_row_tiles(const GroupedSize& size) {
  return size.slots / size.side + size.experts + 1;
}

}  // namespace gangway::cuda
