#include "runtime/fibers/fiber_queue.h"

#include <boost/fiber/context.hpp>

namespace gangway::internal {

using boost::fibers::context;
using boost::fibers::type;

void FiberQueue::awakened(context* context) noexcept {
  if (context->is_context(type::dispatcher_context)) {
    dispatcher_ = context;
    return;
  }
  context->ready_link(queue_);
  if (!context->is_context(type::main_context)) ++ready_;
}

context* FiberQueue::pick_next() noexcept {
  if (dispatcher_ != nullptr && (queue_.empty() || --picks_until_dispatcher_ < 0)) {
    picks_until_dispatcher_ = kPicksPerDispatcher;
    return std::exchange(dispatcher_, nullptr);
  }
  if (queue_.empty()) return nullptr;
  context* next = &queue_.front();
  queue_.pop_front();
  if (!next->is_context(type::main_context)) --ready_;
  return next;
}

bool FiberQueue::has_ready_fibers() const noexcept {
  return dispatcher_ != nullptr || !queue_.empty();
}

void FiberQueue::suspend_until(const std::chrono::steady_clock::time_point& time) noexcept {
  std::unique_lock lock(mutex_);
  const auto woken = [this] { return notified_; };
  if (time == std::chrono::steady_clock::time_point::max()) {
    condition_.wait(lock, woken);
  } else {
    condition_.wait_until(lock, time, woken);
  }
  notified_ = false;
}

void FiberQueue::notify() noexcept {
  {
    std::lock_guard lock(mutex_);
    notified_ = true;
  }
  condition_.notify_all();
}

}  // namespace gangway::internal
