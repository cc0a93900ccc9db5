// Places in one arena for what lives from one step to another: what lives at the same time never
// overlaps.
//
// Best fit, largest first; equal ones in their order: the same intervals give the same places.
// Threads: pure. Cost: O(intervals * live intervals).
#pragma once

#include <cstdint>
#include <vector>

namespace gangway {

struct LiveInterval {
  int64_t bytes = 0;             // Places are aligned as sizes are.
  uint32_t first = 0, last = 0;  // Steps, inclusive.
  int64_t offset = 0;            // pack_intervals() says.
};

// Returns the arena's size.
int64_t pack_intervals(std::vector<LiveInterval>& intervals);

}  // namespace gangway
