// WaitQueue: fibers wait in it for something to happen. Everything in this room that suspends is
// built on it.
//
// Why not Boost.Fiber's condition variable: on one thread no lock is needed, and every wait of a
// reactor's fiber must be known to it, so that it can be cancelled, named in a deadlock report, and
// given a time limit on virtual time.
//
// Threads: the reactor's thread. wait*() suspends: a fiber is parked; outside any fiber the reactor
// is pumped. KJ callbacks and mail may wake, but never wait.
// Errors: wait*() throws kCancelled when the fiber is cancelled or its reactor goes away.
// Cost: park and wake about 0.1 us; with a time limit 0.5 us.
//
// Example (`arrived` is a WaitQueue):
//   while (queue.empty()) arrived.wait("for a task");
//   arrived.wake_one();  // In another fiber, which has added to the queue.
#pragma once

#include <cstdint>

namespace gangway {

class WaitQueue;

namespace internal {

class FiberState;

struct Waiter {
  const char* what;  // A string literal: "for a task".
  FiberState* fiber = nullptr;
  bool woken = false;
  bool timed_out = false;
  bool cancelled = false;
  WaitQueue* queue = nullptr;
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
};

void cancel(FiberState& state);

}  // namespace internal

class WaitQueue {
 public:
  WaitQueue() = default;
  // Aborts if a fiber still waits.
  ~WaitQueue();
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  bool empty() const { return first_ == nullptr; }

  // Suspends until woken. `what` is a literal that completes "waiting ...".
  void wait(const char* what);
  // Suspends until woken, or until the clock reaches `deadline_ns`: then returns false.
  bool wait_until_ns(const char* what, int64_t deadline_ns);

  // Waiters are woken in the order in which they came; they run later, in that order.
  void wake_one();
  void wake_all();

 private:
  friend void internal::cancel(internal::FiberState&);

  void suspend(internal::Waiter& waiter);
  void link(internal::Waiter& waiter);
  void unlink(internal::Waiter& waiter);
  void wake(internal::Waiter& waiter);

  internal::Waiter* first_ = nullptr;
  internal::Waiter* last_ = nullptr;
};

}  // namespace gangway
