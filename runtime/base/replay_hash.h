// ReplayHash: one number over the events of a simulation, in their order. Two simulations that
// differ anywhere have different hashes, but for one case in 2^64. Tests compare hashes to check
// that a seed repeats a run exactly.
//
// Events must not depend on the process: they may contain no addresses, process ids or random
// tokens.
// Threads: one at a time.
// Cost: a few nanoseconds an event.
#pragma once

#include <cstdint>
#include <string_view>

namespace gangway {

class ReplayHash {
 public:
  void add(uint64_t what, int64_t at_ns) {
    mix(what);
    mix(static_cast<uint64_t>(at_ns));
  }
  uint64_t value() const { return state_; }

  // Turns a name into an event's `what`.
  static uint64_t of(std::string_view name) {
    ReplayHash hash;
    for (char c : name) hash.mix(static_cast<unsigned char>(c));
    return hash.state_;
  }

 private:
  void mix(uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 32;
  }

  uint64_t state_ = 0x67616E6777617921u;
};

}  // namespace gangway
