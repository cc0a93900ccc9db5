// Work: one piece of what a device does, a state machine that never blocks; Turn: one attempt to
// advance it.
//
// Threads: advance() and settled() by one thread at a time, the device's. Nothing throws on it.
// Life of a work: pushed -> advanced until it is done -> on a discrete device: what it started is
// awaited, while the works behind it advance -> settled -> retired.
// Ownership: a work stays its owner's until its stream (devices/stream.h) calls retire(), exactly
// once: after it is settled, or with `done == false` when the stream is dropped first. retire() may
// delete it, or push it again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "runtime/base/error.h"

namespace gangway {

class Device;

enum class Progress : uint8_t { kDone, kPending };

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// One attempt to advance. A work that says kPending is advanced again when the device is rung, or
// when `wake_at_ns` has come.
struct Turn {
  Device& device;
  int64_t now_ns = 0;
  int64_t wake_at_ns = kNever;
  bool may_spin = false;  // The device's wait policy spins.

  void wake_by(int64_t time_ns) { wake_at_ns = std::min(wake_at_ns, time_ns); }
  // Whether `word` has reached `value`; where the policy is to spin, waits up to a microsecond for
  // it. An answer of another device that comes so soon is read from its cache line, which costs
  // less than half of a ring and a new turn.
  bool comes(const std::atomic<uint64_t>& word, uint64_t value) const;
};

class Work {
 public:
  virtual ~Work() = default;
  virtual Progress advance(Turn& turn) = 0;
  // All that it started on the device is done; or has failed, since it last took a mark.
  virtual void settled(Turn& turn, const std::shared_ptr<const Error>& failure) {
    static_cast<void>(turn);
    static_cast<void>(failure);
  }
  virtual void retire(bool done) = 0;

 private:
  friend class Stream;
  Work* next_ = nullptr;
  uint64_t mark_ = 0;  // Once it is done: what it started.
};

}  // namespace gangway
