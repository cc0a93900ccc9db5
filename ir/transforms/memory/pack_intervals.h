// Assigns offsets in one arena to buffers that live from one step to another: buffers that live at
// the same time never overlap.
//
// Best fit, largest first; equal ones in their order: the same intervals give the same offsets. For
// more than kIntervalsComparedMax, comparing each with each would take too long: they are placed in
// the order in which they begin, the best fit among what is free then, which may take an arena that
// is a bit larger.
//
// Threads: pure. Cost: O(intervals * live intervals) up to the bound, O(intervals * log) beyond it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gangway {

inline constexpr size_t kIntervalsComparedMax = 2048;

struct LiveInterval {
  int64_t bytes = 0;             // Places are aligned as sizes are.
  uint32_t first = 0, last = 0;  // Steps, inclusive.
  int64_t offset = 0;            // pack_intervals() says.
};

// Returns the arena's size.
int64_t pack_intervals(std::vector<LiveInterval>& intervals);

}  // namespace gangway
