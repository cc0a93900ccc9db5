// StopSource and StopToken ask work to end early, with a reason.
//
// A request can't be taken back. It carries an Error, with which the stopped work reports why it
// ended (cancelled, past its time limit, ...).
// Threads: the reactor's thread. Callbacks run inside request_stop(), once, and must not suspend.
// Ownership: tokens keep the shared state alive, not the source. Destroying a registration removes
// its callback.
//
// wait() suspends until the queue is woken, and throws the reason once a stop is requested. A fiber
// that waits on behalf of a request passes that request's token, and so ends with it.
//
// Example:
//   StopRegistration on_stop = token.on_stop([&](const Error& reason) { promise.fail(reason); });
//   token.throw_if_stopped();
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

namespace internal {

struct StopState {
  using Callback = std::function<void(const Error&)>;
  std::optional<Error> reason;
  std::list<Callback> callbacks;
};

}  // namespace internal

class [[nodiscard]] StopRegistration {
 public:
  StopRegistration() = default;
  StopRegistration(std::shared_ptr<internal::StopState> state,
                   std::list<internal::StopState::Callback>::iterator at)
      : state_(std::move(state)), at_(at) {}
  StopRegistration(StopRegistration&& other) noexcept = default;
  StopRegistration& operator=(StopRegistration&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(at_, other.at_);
    return *this;
  }
  ~StopRegistration() {
    // request_stop() has moved the list away, and the callback with it.
    if (state_ != nullptr && !state_->reason) state_->callbacks.erase(at_);
  }

 private:
  std::shared_ptr<internal::StopState> state_;
  std::list<internal::StopState::Callback>::iterator at_;
};

class StopToken {
 public:
  StopToken() = default;  // A token that is never stopped.
  explicit StopToken(std::shared_ptr<internal::StopState> state) : state_(std::move(state)) {}

  bool stop_requested() const { return state_ != nullptr && state_->reason.has_value(); }
  // Why the stop was requested; null while none was.
  const Error* reason() const { return stop_requested() ? &*state_->reason : nullptr; }
  void throw_if_stopped() const {
    if (stop_requested()) throw *state_->reason;
  }

  // Calls `callback` when a stop is requested; at once if it was already.
  StopRegistration on_stop(internal::StopState::Callback callback) const {
    if (state_ == nullptr) return {};
    if (state_->reason) {
      callback(*state_->reason);
      return {};
    }
    return {state_, state_->callbacks.insert(state_->callbacks.end(), std::move(callback))};
  }

 private:
  std::shared_ptr<internal::StopState> state_;
};

class StopSource {
 public:
  StopSource() : state_(std::make_shared<internal::StopState>()) {}

  StopToken token() const { return StopToken(state_); }
  bool stop_requested() const { return state_->reason.has_value(); }

  // Only the first request counts.
  void request_stop(Error reason = Error(ErrorKind::kCancelled, "stopped on request")) {
    if (state_->reason) return;
    const std::shared_ptr<internal::StopState> state = state_;  // A callback may drop this source.
    state->reason = std::move(reason);
    std::list<internal::StopState::Callback> callbacks;
    callbacks.swap(state->callbacks);
    for (auto& callback : callbacks) callback(*state->reason);
  }

 private:
  std::shared_ptr<internal::StopState> state_;
};

inline void wait(WaitQueue& queue, const char* what, const StopToken& stop) {
  stop.throw_if_stopped();
  const StopRegistration on_stop = stop.on_stop([&queue](const Error&) { queue.wake_all(); });
  queue.wait(what);
  stop.throw_if_stopped();
}

}  // namespace gangway
