// Shadow: the last write and the reads since then of each byte of one allocation, as ranges.
//
// Detects every pair of conflicting accesses that no clock orders, however the operations happen to
// run: it compares clocks, not times. Invariants: cells cover [0, bytes) without gaps.
// Threads: the machine's lock.
// Cost: O(log cells + cells touched).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/emulated/vector_clock.h"

namespace gangway::emulated {

class Shadow {
 public:
  explicit Shadow(int64_t bytes) { cells_[0] = {.end = bytes}; }

  struct Conflict {
    Stamp earlier;
    bool earlier_wrote = false;
    int64_t begin = 0;  // The first byte that both accesses touch.
  };
  // Notes an access to [begin, end), which lies inside. Answers the first access that conflicts
  // with it and does not happen before `clock`.
  std::optional<Conflict> access(int64_t begin, int64_t end, bool writes, Stamp now,
                                 const VectorClock& clock);

 private:
  struct Cell {
    int64_t end = 0;
    Stamp write;               // Tick 0: none.
    std::vector<Stamp> reads;  // Reads since the write, one for each lane.
  };
  using Cells = std::map<int64_t, Cell>;
  Cells::iterator split(int64_t at);

  Cells cells_;
};

}  // namespace gangway::emulated
