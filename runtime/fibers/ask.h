// ask(): calls into a reactor from another thread and waits for the answer. ReactorThread: a
// reactor on a thread of its own.
//
// Threads: ask() is for threads without a reactor: it blocks the calling thread while `body` runs
// as a fiber on the reactor's.
// Errors: those that the body throws; kCancelled when the reactor ends first.
// Ownership: ReactorThread ends its reactor, which cancels its fibers, and joins its thread.
// Objects that belong to the reactor (connections, futures) must be freed on its thread, either by
// the fibers that own them or in a last ask().
// Cost: two wake-ups, 10-60 us.
//
// Example:
//   ReactorThread thread("client");
//   int n = thread.ask("count", [&] { return await(request.send()).getCount(); });
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/thread.h"

namespace gangway {

template <class Body>
auto ask(Mailbox& mailbox, std::string name, Body body) -> std::invoke_result_t<Body&> {
  using R = std::invoke_result_t<Body&>;
  std::promise<Result<R>> answer;
  std::future<Result<R>> answered = answer.get_future();
  mailbox.post(
      [name = std::move(name), body = std::move(body), answer = std::move(answer)]() mutable {
        Reactor::current()
            .spawn(std::move(name),
                   [body = std::move(body), answer = std::move(answer)]() mutable {
                     answer.set_value(result_of(body));
                   })
            .detach();
      });
  std::optional<Result<R>> result;
  try {
    result = answered.get();
  } catch (const std::future_error&) {
    throw Error(ErrorKind::kCancelled, "call: its reactor ended before it was answered");
  }
  if constexpr (std::is_void_v<R>) {
    result->value();
  } else {
    return result->take();
  }
}

class ReactorThread {
 public:
  explicit ReactorThread(std::string name, uint64_t seed = 1);
  ~ReactorThread();
  ReactorThread(const ReactorThread&) = delete;
  ReactorThread& operator=(const ReactorThread&) = delete;

  Mailbox& mailbox() { return *mailbox_; }

  template <class Body>
  auto ask(std::string name, Body body) {
    return gangway::ask(*mailbox_, std::move(name), std::move(body));
  }

 private:
  Mailbox* mailbox_ = nullptr;
  bool stop_ = false;  // The reactor's thread only.
  Thread thread_;
};

}  // namespace gangway
