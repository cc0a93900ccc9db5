// The order in which the fibers of a reactor run: first come, first served.
//
// Boost.Fiber keeps two contexts of its own beside the fibers: `main`, which is the reactor's pump,
// and the dispatcher, which frees finished fibers. Neither counts as "a fiber is ready"; the
// dispatcher runs in turn all the same, or memory would grow without bound.
//
// Threads: the reactor's thread only, save notify().
#pragma once

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/scheduler.hpp>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace gangway::internal {

class FiberQueue final : public boost::fibers::algo::algorithm {
 public:
  // Fibers that could run now: neither the pump nor the dispatcher.
  size_t ready() const { return ready_; }
  // The next switch goes to the dispatcher, if it has anything to do.
  void let_dispatcher_run() { picks_until_dispatcher_ = 0; }

  void awakened(boost::fibers::context* context) noexcept override;
  boost::fibers::context* pick_next() noexcept override;
  bool has_ready_fibers() const noexcept override;
  // Boost.Fiber calls it only while no reactor pumps this thread (at its end).
  void suspend_until(const std::chrono::steady_clock::time_point& time) noexcept override;
  void notify() noexcept override;

 private:
  static constexpr int kPicksPerDispatcher = 64;

  boost::fibers::scheduler::ready_queue_type queue_;
  boost::fibers::context* dispatcher_ = nullptr;
  size_t ready_ = 0;
  int picks_until_dispatcher_ = kPicksPerDispatcher;

  std::mutex mutex_;
  std::condition_variable condition_;
  bool notified_ = false;
};

}  // namespace gangway::internal
