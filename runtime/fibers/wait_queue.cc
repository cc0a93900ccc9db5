#include "runtime/fibers/wait_queue.h"

#include <kj/async.h>
#include <kj/timer.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/fibers/fiber.h"
#include "runtime/fibers/port.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

WaitQueue::~WaitQueue() {
  if (empty()) return;
  std::fprintf(stderr, "broken promise: a WaitQueue died while a fiber was waiting %s\n",
               first_->what);
  std::abort();
}

void WaitQueue::wait(const char* what) {
  internal::Waiter waiter{.what = what};
  suspend(waiter);
}

bool WaitQueue::wait_until_ns(const char* what, int64_t deadline_ns) {
  internal::Waiter waiter{.what = what};
  auto on_time = [this, &waiter] {
    if (waiter.woken) return;
    waiter.timed_out = true;
    wake(waiter);
  };
  kj::Promise<void> timer = Reactor::current()
                                .port()
                                .timer()
                                .atTime(internal::to_kj_time(deadline_ns))
                                .then(on_time)
                                .eagerlyEvaluate([](kj::Exception&&) {});
  suspend(waiter);
  return !waiter.timed_out;
}

void WaitQueue::wake_one() {
  if (first_ != nullptr) wake(*first_);
}

void WaitQueue::wake_all() {
  while (first_ != nullptr) wake(*first_);
}

void WaitQueue::suspend(internal::Waiter& waiter) {
  struct Unlink {
    WaitQueue& queue;
    internal::Waiter& waiter;
    ~Unlink() {
      if (!waiter.woken) queue.unlink(waiter);
    }
  } unlink_at_end{*this, waiter};
  link(waiter);
  Reactor::current().suspend(waiter);
}

void WaitQueue::link(internal::Waiter& waiter) {
  waiter.queue = this;
  waiter.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &waiter;
  last_ = &waiter;
}

void WaitQueue::unlink(internal::Waiter& waiter) {
  (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
  (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
}

void WaitQueue::wake(internal::Waiter& waiter) {
  unlink(waiter);
  waiter.woken = true;
  internal::resume(waiter);
}

}  // namespace gangway
