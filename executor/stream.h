// Stream: the work of one device, in order; Work: one piece of it, a state machine that never
// blocks.
//
// A stream knows no thread. Its device advances it: a CPU device from a thread of its own that
// parks when nothing can go on, a simulated one inline on the reactor. So the same work runs on
// both.
//
// Threads: push() anywhere; advance() by one thread at a time, the device's. Nothing throws on it.
// Ownership: a work stays its owner's until the stream calls retire(), exactly once: after it is
// done, or with `done == false` when the stream is dropped first. retire() may delete it, or push
// it again. Cost: push 10-20 ns; nothing is allocated.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

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
  virtual void retire(bool done) = 0;

 private:
  friend class Stream;
  Work* next_ = nullptr;
};

class Stream {
 public:
  Stream() = default;
  ~Stream() { drop(); }
  Stream(const Stream&) = delete;

  void push(Work& work);
  // Runs what can run. kPending: the first work waits for a ring or for turn.wake_at_ns; kDone:
  // nothing is left.
  Progress advance(Turn& turn);
  // Retires what is left, not done. The device's thread has ended.
  void drop();
  // Whether there is work that advance() has not finished.
  bool empty() const {
    return first_ == nullptr && incoming_.load(std::memory_order_acquire) == nullptr;
  }

 private:
  bool take_incoming();

  std::atomic<Work*> incoming_{nullptr};  // Newest first.
  Work* first_ = nullptr;                 // The device's: oldest first.
  Work* last_ = nullptr;
};

}  // namespace gangway
