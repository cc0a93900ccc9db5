// Fiber: a handle to straight-line code that runs on a reactor and may suspend.
//
// Threads: the reactor's thread.
// Ownership: dropping the handle lets the fiber run on (detached); what its body captured lives
// until it ends.
// Errors: join() throws what the body threw. A detached fiber's error goes to the reactor's
// on_unhandled_error, save kCancelled.
// Cost: 0.3-0.5 us to create and join; 256 KiB of address space while it lives.
//
// Example:
//   Fiber fiber = reactor.spawn("register", [&] { client.register_host(); });
//   fiber.join();
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/fibers/fiber_stack.h"
#include "runtime/fibers/wait_queue.h"

namespace boost::fibers {
class context;
}

namespace gangway {

class Reactor;

namespace internal {

// One fiber, kept by the reactor until it ends and by its handles.
class FiberState {
 public:
  explicit FiberState(std::string name) : name_(std::move(name)) {}
  virtual ~FiberState() = default;

  const std::string& name() const { return name_; }
  bool done() const { return done_; }
  // Names the event that the fiber waits for; null when it runs or is ready to.
  const char* waiting() const { return waiter_ != nullptr ? waiter_->what : nullptr; }

  virtual void run() = 0;

 private:
  friend class ::gangway::Reactor;
  friend void resume(Waiter& waiter);

  std::string name_;
  boost::fibers::context* context_ = nullptr;  // Set once it has started.
  StackRange stack_;
  Waiter* waiter_ = nullptr;
  bool cancelled_ = false;
  bool done_ = false;
  bool error_seen_ = false;
  std::optional<Error> error_;
  WaitQueue joiners_;
  int references_ = 0;
  FiberState* previous_ = nullptr;  // The reactor's list of live fibers.
  FiberState* next_ = nullptr;

  friend class ::gangway::WaitQueue;
  friend void keep(FiberState& state) { ++state.references_; }
  friend void drop(FiberState& state) {
    if (--state.references_ == 0) delete &state;
  }
  friend void join(FiberState& state);
  friend void cancel(FiberState& state);
};

template <class Body>
class FiberBody final : public FiberState {
 public:
  FiberBody(std::string name, Body body) : FiberState(std::move(name)), body_(std::move(body)) {}
  ~FiberBody() noexcept override {}
  void run() override {
    // The body is moved out, so that its captures are destroyed when it ends and not with the last
    // handle.
    Body body = std::move(*body_);
    body_.reset();
    body();
  }

 private:
  std::optional<Body> body_;
};

// Suspends until the fiber is done; throws its error.
void join(FiberState& state);
void cancel(FiberState& state);
// Makes the fiber of a woken waiter ready to run.
void resume(Waiter& waiter);

}  // namespace internal

class [[nodiscard]] Fiber {
 public:
  Fiber() = default;
  explicit Fiber(internal::FiberState* state) : state_(state) { keep(*state_); }
  Fiber(Fiber&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Fiber& operator=(Fiber&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Fiber() { detach(); }

  bool done() const { return state_ == nullptr || state_->done(); }
  // Suspends until the body has returned; throws what it threw.
  void join() {
    if (state_ != nullptr) internal::join(*state_);
  }
  // Whether the caller runs in this fiber.
  bool is_current() const;
  // Makes the wait that the fiber is in now, or else its next one, throw kCancelled; once.
  void cancel() {
    if (state_ != nullptr) internal::cancel(*state_);
  }
  void detach() {
    if (state_ != nullptr) drop(*std::exchange(state_, nullptr));
  }

 private:
  internal::FiberState* state_ = nullptr;
};

}  // namespace gangway
