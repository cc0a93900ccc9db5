// VectorClock: for each lane (a stream, or the host), the last operation that a moment comes after.
//
// An operation of lane `l` with tick `t` happens before a moment whose clock has at least `t` at
// `l`.
// Threads: a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gangway::emulated {

// One operation: its lane, its number there (from 1), and the index of its label.
struct Stamp {
  uint32_t lane = 0, tick = 0, label = 0;
};

class VectorClock {
 public:
  uint32_t at(uint32_t lane) const { return lane < ticks_.size() ? ticks_[lane] : 0; }
  uint32_t advance(uint32_t lane) {
    if (lane >= ticks_.size()) ticks_.resize(lane + 1, 0);
    return ++ticks_[lane];
  }
  void join(const VectorClock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size(), 0);
    for (size_t i = 0; i < other.ticks_.size(); ++i)
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }
  bool after(const Stamp& stamp) const { return at(stamp.lane) >= stamp.tick; }

 private:
  std::vector<uint32_t> ticks_;
};

}  // namespace gangway::emulated
