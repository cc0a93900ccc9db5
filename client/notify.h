// Notify: lets any thread wait until the client's reactor has made a predicate true.
//
// User threads block; code on the reactor itself (the simulator's tests) suspends its fiber. What
// the predicate reads is guarded by `mutex`.
//
// Threads: wait() anywhere; notify() on the reactor's thread.
#pragma once

#include <condition_variable>
#include <mutex>

#include "runtime/fibers/reactor.h"

namespace gangway::internal {

class Notify {
 public:
  std::mutex mutex;
  Reactor* home = nullptr;  // The client's reactor; set before the first wait.

  // Waits until predicate(), which is called with the mutex held.
  template <class Predicate>
  void wait(const Predicate& predicate) {
    if (home == nullptr || Reactor::current_or_null() != home) {
      std::unique_lock lock(mutex);
      changed_.wait(lock, predicate);
      return;
    }
    while (true) {
      {
        std::lock_guard lock(mutex);
        if (predicate()) return;
      }
      queue_.wait("for the cluster");
    }
  }

  void notify() {
    changed_.notify_all();
    queue_.wake_all();
  }

 private:
  std::condition_variable changed_;
  WaitQueue queue_;
};

}  // namespace gangway::internal
