// Between KJ promises and fibers: await() waits for a promise in a fiber; in_fiber() runs an RPC
// method as a fiber; await_end() gives a last word a while to arrive.
//
// For runtime/ and *_rpc.cc files; other code sees Future.
// Threads: the reactor's thread. await() suspends. Cancelling the waiting fiber cancels the KJ
// operation.
// Errors: a KJ exception becomes an Error (runtime/fibers/kj_error.h). If it carries an Error that
// a server threw, that Error is thrown.
//
// Example:
//   auto response = await(request.send());
//
// Example (a method of an RPC server):
//   kj::Promise<void> registerHost(RegisterHostContext context) override {
//     return in_fiber("register_host", [this, context]() mutable {
//       context.getResults().setId(register_host(context.getParams()));
//     });
//   }
#pragma once

#include <kj/async.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/future.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/reactor.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

template <class T>
T await(kj::Promise<T> promise) {
  std::optional<Result<void>> done;
  WaitQueue queue;
  const auto failed = [&](kj::Exception&& exception) {
    done = Result<void>(to_error(exception));
    queue.wake_all();
  };
  const auto wait = [&] {
    while (!done) queue.wait("for a call or I/O");
    done->value();
  };
  if constexpr (std::is_void_v<T>) {
    kj::Promise<void> task = promise
                                 .then(
                                     [&] {
                                       done = Result<void>();
                                       queue.wake_all();
                                     },
                                     failed)
                                 .eagerlyEvaluate(nullptr);
    wait();
  } else {
    std::unique_ptr<T> value;
    kj::Promise<void> task = promise
                                 .then(
                                     [&](T&& arrived) {
                                       value = std::make_unique<T>(kj::mv(arrived));
                                       done = Result<void>();
                                       queue.wake_all();
                                     },
                                     failed)
                                 .eagerlyEvaluate(nullptr);
    wait();
    return std::move(*value);
  }
}

namespace internal {

// Wraps a fiber's body so that it fulfils a promise when it ends.
template <class Body>
auto telling(Body body, kj::Own<kj::PromiseFulfiller<void>> fulfiller) {
  return [body = std::move(body), fulfiller = kj::mv(fulfiller)]() mutable {
    const Result<void> result = result_of(body);
    if (result.ok()) {
      fulfiller->fulfill();
    } else {
      fulfiller->reject(to_kj(result.error()));
    }
  };
}

}  // namespace internal

// Runs `body` as a fiber; the promise ends when it does. Dropping the promise does not stop the
// fiber.
template <class Body>
kj::Promise<void> in_fiber(std::string name, Body body) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  Reactor::current()
      .spawn(std::move(name), internal::telling(std::move(body), kj::mv(pair.fulfiller)))
      .detach();
  return kj::mv(pair.promise);
}

// Like in_fiber() above, but the fiber belongs to a group, for calls that must end before their
// service is destroyed. A call that arrives after the group was cancelled is refused.
template <class Body>
kj::Promise<void> in_fiber(FiberGroup& group, std::string name, Body body) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  try {
    group.spawn(std::move(name), internal::telling(std::move(body), kj::mv(pair.fulfiller)));
  } catch (const Error& error) {
    return to_kj(error);
  }
  return kj::mv(pair.promise);
}

// Waits until the call has ended, well or not, or until the time. Nobody is told how: for a last
// word to a peer that may stand still. A fiber that is to be cancelled does not wait at all.
inline void await_end(kj::Promise<void> call, int64_t until_ns) {
  bool has_ended = false;
  WaitQueue queue;
  const auto end = [&] {
    has_ended = true;
    queue.wake_all();
  };
  const kj::Promise<void> task =
      call.then(end, [&](const kj::Exception&) { end(); }).eagerlyEvaluate(nullptr);
  static_cast<void>(result_of([&] {
    while (!has_ended && queue.wait_until_ns("for a last word to arrive", until_ns)) {
    }
  }));
}

// Converts a Future to a KJ promise.
inline kj::Promise<void> to_kj(const Future<void>& future) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  future.on_ready([fulfiller = kj::mv(pair.fulfiller)](const Result<void>& result) mutable {
    if (result.ok()) {
      fulfiller->fulfill();
    } else {
      fulfiller->reject(to_kj(result.error()));
    }
  });
  return kj::mv(pair.promise);
}

}  // namespace gangway
