// Event: a point in a device's stream: not reached yet, reached with success, or failed.
//
// Like cudaEvent_t, with an error in it: work that waits on a failed event does not run and fails
// with the same error, so everything that depends on failed work reports the first error.
//
// Threads: record() and fail() once, by the thread that does the work; the other calls anywhere.
// Listeners are rung by the recording thread.
// Ownership: shared by the recorder and the waiters.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {

class Event {
 public:
  bool ready() const { return state_.load(std::memory_order_acquire) != kPending; }
  // Null: not ready, or no error.
  const Error* error() const {
    return state_.load(std::memory_order_acquire) == kFailed ? &*error_ : nullptr;
  }
  std::shared_ptr<const Error> shared_error() const { return ready() ? error_ : nullptr; }

  void record();
  void fail(std::shared_ptr<const Error> error);

  // Calls `ring` once the event is ready: at once if it is ready already.
  void on_ready(std::function<void()> ring);

 private:
  enum State : uint8_t { kPending, kOk, kFailed };
  void settle(State state);

  std::atomic<State> state_{kPending};
  std::shared_ptr<const Error> error_;
  std::mutex mutex_;
  std::vector<std::function<void()>> listeners_;
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace gangway
