// Stream: the work of one device, in order.
//
// A stream has no thread. Its device advances it: a CPU device on a thread of its own, which parks
// when no work can go on; a simulated one inline on the reactor. So the same work runs on both.
//
// Threads: push() anywhere; advance() by one thread at a time, the device's. Nothing throws on it.
// Ownership and life of a work: work/work.h.
// Cost: push 10-20 ns; nothing is allocated.
#pragma once

#include <atomic>

#include "executor/work/work.h"

namespace gangway {

class Stream {
 public:
  Stream() = default;
  ~Stream() { drop(); }
  Stream(const Stream&) = delete;

  void push(Work& work);
  // Runs what can run. kPending: a work waits for a ring or for turn.wake_at_ns; kDone: nothing is
  // left.
  Progress advance(Turn& turn);
  // Retires the works that are left as not done. Called once the device's thread has ended.
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
