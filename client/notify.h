// Notify: lets any thread wait until the client's reactor has made a predicate true.
//
// User threads block; code on the reactor itself (the simulator's tests) suspends its fiber. What
// the predicate reads is guarded by `mutex`. Whoever changes it asks the predicates of the threads
// that wait, and wakes those that may go on: of the ends of eight runs, one wakes the thread that
// waits for the last.
//
// Threads: anywhere; where fibers of the reactor wait too, change() on its thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/fibers/reactor.h"

namespace gangway::internal {

class Notify {
 public:
  std::mutex mutex;
  Reactor* home = nullptr;  // The client's reactor; set before the first wait.

  bool is_at_home() const { return home != nullptr && Reactor::current_or_null() == home; }

  // Waits until predicate(), which is called with the mutex held, perhaps by another thread. It is
  // not called again once it has said true, so it may take what it looked for.
  template <class Predicate>
  void wait(const Predicate& predicate) {
    if (!is_at_home()) {
      block(predicate, nullptr);
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

  // The same for threads, and for so long at most: false when it has not become true by then.
  template <class Predicate>
  bool wait_for(const Predicate& predicate, std::chrono::nanoseconds time_limit) {
    return block(predicate, &time_limit);
  }

  // Changes, with the mutex held, what predicates read.
  template <class Change>
  void change(const Change& what) {
    std::vector<std::shared_ptr<Waiter>> woken;
    {
      std::lock_guard lock(mutex);
      what();
      std::erase_if(waiters_, [&](const std::shared_ptr<Waiter>& waiter) {
        waiter->may_go_on = waiter->predicate();
        if (waiter->may_go_on) woken.push_back(waiter);
        return waiter->may_go_on;
      });
    }
    // Without the mutex, which they need first.
    for (const auto& waiter : woken) waiter->changed.notify_one();
    queue_.wake_all();
  }

 private:
  // A thread that waits; whoever wakes it may still hold this when it has gone on.
  struct Waiter {
    std::function<bool()> predicate;
    bool may_go_on = false;
    std::condition_variable changed;
  };

  template <class Predicate>
  bool block(const Predicate& predicate, const std::chrono::nanoseconds* time_limit) {
    std::unique_lock lock(mutex);
    if (predicate()) return true;
    const auto waiter = std::make_shared<Waiter>();
    waiter->predicate = std::cref(predicate);
    waiters_.push_back(waiter);
    const auto may_go_on = [&] { return waiter->may_go_on; };
    if (time_limit == nullptr) {
      waiter->changed.wait(lock, may_go_on);
    } else if (!waiter->changed.wait_for(lock, *time_limit, may_go_on)) {
      std::erase(waiters_, waiter);
    }
    return waiter->may_go_on;
  }

  std::vector<std::shared_ptr<Waiter>> waiters_;
  WaitQueue queue_;
};

}  // namespace gangway::internal
