// The units in which devices give memory out. Executors allocate in them, and the controller admits
// in them, so that what it admits fits.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/align.h"

namespace gangway {

inline constexpr int64_t kDeviceUnitBytes = 256;

// What a tensor of `bytes` takes on a device.
inline int64_t device_bytes(int64_t bytes) {
  return align_up(std::max<int64_t>(bytes, 1), kDeviceUnitBytes);
}

}  // namespace gangway
