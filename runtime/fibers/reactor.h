// Reactor: one thread that runs fibers and the KJ event loop (RPC, sockets, timers) together.
//
// Two kinds with one interface. A real one waits on the operating system. A simulated one runs the
// same code on virtual time and in-memory pipes, in an order that a seed decides: whenever nothing
// can run, time jumps to the next timer; when there is no timer either, that is reported as a
// deadlock, with every fiber and what it waits for.
//
// One turn of the pump, again and again:
//
//   deliver mail -> run ready fibers -> a bounded turn of KJ -> if nothing is left to do, sleep
//   until there is mail, I/O or a timer is due
//
// Threads: created, used and destroyed on one thread, one reactor a thread at a time; any number in
// a process. Only mailbox() may be used from elsewhere (see runtime/fibers/ask.h for calls that
// wait for an answer). Code that the thread runs outside any fiber is the pump. It may wait too
// (run(), Fiber::join(), Future::await() pump meanwhile). A KJ callback or mail never suspends; it
// fulfils a promise or spawns a fiber, and returns.
// Ownership: destroying a reactor first cancels its fibers (each wait throws kCancelled) and runs
// them to their end.
// Errors: a wait that never ends is kBug "deadlock" in a simulation; passing the time limit is
// kCancelled.
// Cost: switch between fibers 0.1 us, spawn and join 0.3-0.5 us, virtual sleep 0.4 us.
//
// Example:
//   auto reactor = Reactor::make_simulated({.seed = 7});
//   int sum = reactor->run([&] {
//     Fiber other = reactor->spawn("other", [&] { reactor->clock().sleep_for(1h); });
//     other.join();
//     return 3;
//   });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/base/rng.h"
#include "runtime/fibers/clock.h"
#include "runtime/fibers/fiber.h"

namespace gangway {

namespace internal {
class FiberQueue;
class Port;
class StretchWatch;
}  // namespace internal

class Mailbox;

struct SimOptions {
  uint64_t seed = 1;
  int64_t start_ns = 0;
  int64_t time_limit_ns = 365LL * 24 * 3600 * 1'000'000'000;  // Virtual.
};

class Reactor {
 public:
  static std::unique_ptr<Reactor> make_real(uint64_t seed = 1);
  static std::unique_ptr<Reactor> make_simulated(SimOptions options = {});
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // This thread's reactor: kBug when there is none.
  static Reactor& current();
  static Reactor* current_or_null();

  // Starts `body` as a fiber; it first runs when the caller suspends or returns.
  template <class Body>
  Fiber spawn(std::string name, Body body) {
    return start(std::make_unique<internal::FiberBody<Body>>(std::move(name), std::move(body)));
  }

  // Runs `body` as a fiber to its end and returns its result. Called in a fiber, just calls it.
  template <class Body>
  auto run(Body&& body) -> std::invoke_result_t<Body&>;

  // Pumps until done() returns true; calls done() after every turn. Fibers must not call it.
  void run_until(const std::function<bool()>& done) { pump(done); }
  // Runs what can run now, without waiting for I/O and without moving virtual time.
  void run_ready();

  Clock& clock() { return *clock_; }
  // In a simulation it is seeded with the options' seed. Each component forks a stream of its own.
  Rng& rng() { return rng_; }
  Mailbox& mailbox() { return *mailbox_; }
  bool simulated() const { return simulated_; }
  bool in_fiber() const { return current_ != nullptr; }
  size_t live_fibers() const { return live_count_; }
  // The longest time, since the reactor began, that code it ran kept it busy in one turn
  // (stretch_watch.h). 0 in a simulation.
  int64_t longest_stretch_ns() const;
  // One line for each live fiber: its name and what it waits for.
  std::string describe_fibers() const;

  // Handles the error of a detached fiber. The default prints it to standard error.
  std::function<void(const std::string& fiber, const Error& error)> on_unhandled_error;

  // For the rest of runtime/.
  internal::Port& port() { return *port_; }
  void suspend(internal::Waiter& waiter);
  const internal::FiberState* current_fiber() const { return current_; }

 private:
  friend void internal::cancel(internal::FiberState& state);

  Reactor(std::unique_ptr<internal::Port> port, uint64_t seed, bool simulated);

  Fiber start(std::unique_ptr<internal::FiberState> state);
  void run_body(internal::FiberState& state);
  void finish(internal::FiberState& state) noexcept;
  void pump(const std::function<bool()>& done);
  bool turn();
  bool run_what_is_ready();
  bool block();
  void cancel_all();

  std::unique_ptr<internal::Port> port_;
  internal::FiberQueue* queue_;  // Boost.Fiber owns it until the destructor installs another.
  std::shared_ptr<internal::StackPool> stacks_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<internal::StretchWatch> stretches_;  // Null in a simulation.
  Rng rng_;
  bool simulated_;
  bool in_callback_ = false;  // A KJ callback or mail runs and must not suspend.
  internal::FiberState* current_ = nullptr;
  internal::FiberState* live_ = nullptr;
  size_t live_count_ = 0;
  bool finished_some_ = false;
  uint32_t turns_ = 0;
};

template <class Body>
auto Reactor::run(Body&& body) -> std::invoke_result_t<Body&> {
  using R = std::invoke_result_t<Body&>;
  if (in_fiber()) return body();
  if constexpr (std::is_void_v<R>) {
    spawn("run", [&body] { body(); }).join();
  } else {
    std::optional<R> result;
    spawn("run", [&] { result.emplace(body()); }).join();
    return std::move(*result);
  }
}

}  // namespace gangway
