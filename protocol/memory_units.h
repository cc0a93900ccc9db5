// The units in which devices give memory out. Executors allocate in them, and the controller admits
// in them, so that what it admits fits.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/align.h"

namespace gangway {

inline constexpr int64_t kDeviceAlignment = 256;  // As a card gives memory out.

// What `bytes` take of a device's memory: whole units, at least one.
inline int64_t block_bytes(int64_t bytes) {
  return align_up(std::max<int64_t>(bytes, 1), kDeviceAlignment);
}

}  // namespace gangway
