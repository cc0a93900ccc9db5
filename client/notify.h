// Notify: lets any thread wait until the client's reactor has made a predicate true.
//
// User threads block; code on the reactor itself (the simulator's tests) suspends its fiber.
// `mutex` guards what predicates read. A thread that changes it evaluates the predicates of the
// threads that wait, and wakes those that may go on: when eight runs end, one of the ends wakes the
// thread that waits for the last.
//
// A thread that wait() blocks spins first, for 100 us at most, where that has been worth it lately
// and there is more than one core, since waking a thread takes longer than a small call.
//
// Threads: any; where fibers of the reactor wait too, change() is called on its thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client/spin_habit.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/doorbell.h"

namespace gangway::internal {

class Notify {
 public:
  std::mutex mutex;
  Reactor* home = nullptr;  // The client's reactor; set before the first wait.

  bool is_at_home() const { return home != nullptr && Reactor::current_or_null() == home; }

  // Waits until predicate() is true. It is called with the mutex held, perhaps by another thread,
  // and not again once it has returned true, so it may take what it looked for.
  template <class Predicate>
  void wait(const Predicate& predicate) {
    if (!is_at_home()) {
      block(predicate, -1);
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

  // The same for threads, without spinning, and with a time limit: false when the predicate has not
  // become true by then.
  template <class Predicate>
  bool wait_for(const Predicate& predicate, std::chrono::nanoseconds time_limit) {
    return block(predicate, time_limit.count());
  }

  // Changes what predicates read, with the mutex held.
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
    // Rung without the mutex, which the woken threads need first.
    for (const auto& waiter : woken) waiter->bell.ring();
    queue_.wake_all();
  }

 private:
  // A thread that waits. The thread that wakes it may still hold this when it has gone on.
  struct Waiter {
    std::function<bool()> predicate;
    bool may_go_on = false;
    Doorbell bell;  // Rung once it may.
  };
  static constexpr int64_t kSpinNs = 100'000;

  // Spins at first only if there is no limit (negative).
  template <class Predicate>
  bool block(const Predicate& predicate, int64_t limit_ns) {
    std::unique_lock lock(mutex);
    if (predicate()) return true;
    const auto waiter = std::make_shared<Waiter>();
    waiter->predicate = std::cref(predicate);
    waiters_.push_back(waiter);
    const uint32_t ticket = waiter->bell.ticket();
    const bool spins = limit_ns < 0 && has_cores_ && habit_.begin();
    lock.unlock();
    Doorbell::Spun spun;
    if (spins) spun = waiter->bell.spin(ticket, kSpinNs);
    if (!spun.is_rung) waiter->bell.wait(ticket, SpinPolicy::park(), limit_ns);
    lock.lock();
    if (spins) habit_.end(spun.is_worth_it);
    if (!waiter->may_go_on) std::erase(waiters_, waiter);
    return waiter->may_go_on;
  }

  const bool has_cores_ = SpinPolicy::for_threads(2).spin_ns > 0;
  SpinHabit habit_;  // Guarded by the mutex, as what follows.
  std::vector<std::shared_ptr<Waiter>> waiters_;
  WaitQueue queue_;
};

}  // namespace gangway::internal
