// Stream: the work of one device, in order; Work: one piece of it, a state machine that never
// blocks.
//
// A stream knows no thread. Its device advances it: a CPU device from a thread of its own that
// parks when nothing can go on, a simulated one inline on the reactor. So the same work runs on
// both.
//
// Threads: push() anywhere; advance() by one thread at a time, the device's. Nothing throws on it.
// Life of a work: pushed -> advanced until it is done -> on a discrete device: what it started is
// awaited, while the works behind it advance -> settled -> retired.
// Ownership: a work stays its owner's until the stream calls retire(), exactly once: after it is
// settled, or with `done == false` when the stream is dropped first. retire() may delete it, or
// push it again. Cost: push 10-20 ns; nothing is allocated.
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

// One attempt to go on. What is pending is tried again when the device is rung, or when
// `wake_at_ns` has come.
struct Turn {
  Device& device;
  int64_t now_ns = 0;
  int64_t wake_at_ns = kNever;
  bool may_spin = false;  // The device's wait policy spins.

  void wake_by(int64_t time_ns) { wake_at_ns = std::min(wake_at_ns, time_ns); }
  // Whether `word` has come to `value`; where spinning is the policy, it is given a microsecond.
  // An answer of another device that comes so soon is seen on its own cache line, which costs less
  // than half of a ring and a new turn.
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

class Stream {
 public:
  Stream() = default;
  ~Stream() { drop(); }
  Stream(const Stream&) = delete;

  void push(Work& work);
  // Runs what can run. kPending: a work waits for a ring or for turn.wake_at_ns; kDone: nothing is
  // left.
  Progress advance(Turn& turn);
  // Retires what is left, not done. The device's thread has ended.
  void drop();
  // Whether there is work that advance() has not finished.
  bool empty() const {
    return first_ == nullptr && settling_ == nullptr &&
           incoming_.load(std::memory_order_acquire) == nullptr;
  }

 private:
  bool take_incoming();
  void end_first(Turn& turn);
  void settle(Turn& turn);

  std::atomic<Work*> incoming_{nullptr};  // Newest first.
  Work* first_ = nullptr;                 // The device's: oldest first.
  Work* last_ = nullptr;
  Work* settling_ = nullptr;  // Done, but for what they started: oldest first.
  Work* settling_last_ = nullptr;
};

}  // namespace gangway
