// What the gang scheduler gives and gets: ranges of positions that have tickets, and what devices
// have ended of them.
//
// Threads: values.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"

namespace gangway {

// All slices of a plan together: positions in the order of its nodes.
inline constexpr uint32_t kAllSlices = ~uint32_t{0};

// Positions first .. first + count - 1 of a run in a slice have the tickets from `ticket` on.
struct GrantedRange {
  RunId run;
  uint32_t slice = 0;  // Or kAllSlices.
  uint32_t first = 0, count = 0;
  Ticket ticket;
};

// The devices of a slice have ended all positions before `position_end`.
struct EndedSections {
  RunId run;
  uint32_t slice = 0;
  uint32_t position_end = 0;
  int64_t busy_ns = 0;  // With what they ended since they last said so.
};

}  // namespace gangway
