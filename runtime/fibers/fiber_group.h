// FiberGroup: fibers that end with their owner.
//
// Threads: the reactor's thread. The destructor cancels what still runs and suspends until all have
// ended.
// Errors: nobody is told of a fiber's error, so the body catches what somebody must know. spawn()
// throws kCancelled once the group has been cancelled.
//
// Example:
//   FiberGroup fibers(reactor);
//   fibers.spawn("serve", [&] { ... });
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class FiberGroup {
 public:
  explicit FiberGroup(Reactor& reactor) : reactor_(reactor) {}
  ~FiberGroup() { cancel(); }
  FiberGroup(const FiberGroup&) = delete;
  FiberGroup& operator=(const FiberGroup&) = delete;

  template <class Body>
  void spawn(std::string name, Body body) {
    if (cancelled_) throw Error(ErrorKind::kCancelled, cat(name, ": its owner has ended"));
    if (fibers_.size() >= prune_at_) prune();
    fibers_.push_back(reactor_.spawn(std::move(name), std::move(body)));
  }

  // Suspends until all fibers of the group have ended, also when the calling fiber is itself
  // cancelled meanwhile. A fiber of the group may call cancel(), which then does not wait for that
  // fiber.
  void cancel() {
    cancelled_ = true;
    std::vector<Fiber> ending = std::exchange(fibers_, {});
    for (Fiber& fiber : ending) fiber.cancel();
    for (Fiber& fiber : ending) {
      while (!fiber.done() && !fiber.is_current()) join_quietly(fiber);
    }
  }

 private:
  static void join_quietly(Fiber& fiber) {
    try {
      fiber.join();
    } catch (const Error&) {  // The fiber's error, or the cancellation of the caller.
    }
  }
  void prune() {
    std::erase_if(fibers_, [](const Fiber& fiber) { return fiber.done(); });
    prune_at_ = std::max<size_t>(16, 2 * fibers_.size());
  }

  Reactor& reactor_;
  std::vector<Fiber> fibers_;
  size_t prune_at_ = 16;
  bool cancelled_ = false;
};

}  // namespace gangway
