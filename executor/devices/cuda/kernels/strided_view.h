// The arguments of a strided copy: plain structs that the host and the kernels share. Sizes,
// strides and steps count units that move as one.
#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#endif

namespace gangway::cuda {

inline constexpr int kViewRankMax = 8;
inline constexpr int kMoveBytesMax = 16;  // Limit of a unit that moves as one.

struct StridedView {
  int32_t rank = 0;
  int64_t sizes[kViewRankMax] = {};
  int64_t source[kViewRankMax] = {}, target[kViewRankMax] = {};
};

// Begin of the copy in the source, and a window that moves by a run-time scalar.
struct MovingWindow {
  int64_t source_begin = 0;
  int32_t moves = 0;
  int64_t last = 0;
  int64_t source_step = 0, target_step = 0;
};

}  // namespace gangway::cuda
