// BackOff: how long to wait between attempts. The wait doubles up to a limit, and a random part of
// up to half of it is left out, so that clients that lost the same peer do not all come back at the
// same time.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/rng.h"

namespace gangway {

class BackOff {
 public:
  struct Limits {
    int64_t first_ms = 100, max_ms = 5000;
  };
  BackOff(const Rng& rng, const Limits& limits)
      : rng_(rng), limits_(limits), full_ms_(limits.first_ms) {}

  int64_t next_ns() {
    const double full_ns = static_cast<double>(full_ms_) * 1e6;
    full_ms_ = std::min(2 * full_ms_, limits_.max_ms);
    return static_cast<int64_t>(full_ns * (0.5 + 0.5 * rng_.uniform()));
  }
  // Called after a success: the next wait is the first one again.
  void reset() { full_ms_ = limits_.first_ms; }

 private:
  Rng rng_;
  Limits limits_;
  int64_t full_ms_;
};

}  // namespace gangway
