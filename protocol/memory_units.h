// The units in which devices allocate memory. Executors allocate in them, and the controller admits
// in them, so that all admitted plans fit.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/align.h"

namespace gangway {

inline constexpr int64_t kDeviceAlignment = 256;  // The unit of a GPU's allocator.

// Returns the device memory that `bytes` take: whole units, at least one.
inline int64_t block_bytes(int64_t bytes) {
  return align_up(std::max<int64_t>(bytes, 1), kDeviceAlignment);
}

}  // namespace gangway
