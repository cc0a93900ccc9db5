// Background: work that would hold up a reactor for long (compiling, reading large messages), done
// on threads of its own, while the fiber that asked for it waits.
//
// At most `threads_max` pieces of work are under way; the others wait for a thread. Work may have
// an owner: owners take turns, an owner's own pieces begin in the order in which they came, and one
// owner's keep at most `of_one_owner_max` threads busy, so that no owner alone holds up all others.
// A simulated reactor does the work itself, where it is asked for, so that a simulation stays
// deterministic.
//
// Threads: used and destroyed on the reactor's; the work runs on others, which are started as they
// are needed.
// Ownership: work is copied and owns what it uses, since its fiber may be cancelled and destroyed
// while the work runs. The result is destroyed on the reactor's thread.
// Errors: those that the work throws; kCancelled when the fiber is cancelled or the Background
// stopped.
// Cost: a wake-up of a thread and one of the reactor, 10-60 us. stop() waits for the work that is
// under way, which should look now and then whether it is still wanted.
//
// Example:
//   Background background(reactor, "controller/compiler", 2);
//   Plan plan = background.run([program, options] { return lower(*program, options); });
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/fibers/future.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/os/thread.h"

namespace gangway {

struct BackgroundBounds {
  size_t threads_max = 1;
  size_t of_one_owner_max = ~size_t{0};
};

class Background {
 public:
  Background(Reactor& reactor, std::string name, BackgroundBounds bounds)
      : reactor_(reactor), name_(std::move(name)), bounds_(bounds) {}
  Background(Reactor& reactor, std::string name, size_t threads_max)
      : Background(reactor, std::move(name), BackgroundBounds{.threads_max = threads_max}) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;

  // Suspends. The work has no owner.
  template <class Body>
  auto run(Body body) -> std::invoke_result_t<Body&> {
    return run(std::string(), std::move(body));
  }
  // Suspends. The work begins in its owner's turn.
  template <class Body>
  auto run(const std::string& owner, Body body) -> std::invoke_result_t<Body&> {
    if (reactor_.simulated()) return body();
    auto done = start(owner, std::move(body));
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      done.await();
    } else {
      return done.take();
    }
  }

  // Like run(), but does not wait: the future gets what run() would have returned or thrown.
  template <class Body>
  auto start(Body body) -> Future<std::invoke_result_t<Body&>> {
    return start(std::string(), std::move(body));
  }
  template <class Body>
  auto start(const std::string& owner, Body body) -> Future<std::invoke_result_t<Body&>> {
    using R = std::invoke_result_t<Body&>;
    if (reactor_.simulated()) return Future<R>(result_of(body));
    auto promise = std::make_shared<Promise<R>>();
    Future<R> done = promise->future();
    const auto drop = [promise](const Error& why) { promise->fail(why); };
    auto work = [&mailbox = reactor_.mailbox(), promise = std::move(promise),
                 body = std::move(body)]() mutable {
      auto result = std::make_shared<Result<R>>(result_of(body));
      // The promise is moved, so that its last handle is destroyed on the reactor's thread.
      mailbox.post([promise = std::move(promise), result = std::move(result)] {
        promise->finish(std::move(*result));
      });
    };
    add(owner, {std::move(work), drop});
    return done;
  }

  // Drops work that has not begun. No work may be asked for afterwards.
  void stop();

 private:
  struct Work {
    std::function<void()> run;
    std::function<void(const Error&)> drop;  // Called on the reactor's thread.
  };
  // Work of one owner. The line exists while some of its work waits or is under way.
  struct Line {
    std::deque<Work> waiting;
    size_t under_way = 0;
    uint64_t last_turn = 0;
  };
  void add(const std::string& owner, Work work);
  void serve();
  std::map<std::string, Line>::iterator next();
  void end_turn(const std::string& owner);

  Reactor& reactor_;
  const std::string name_;
  const BackgroundBounds bounds_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::map<std::string, Line> lines_;  // Keyed by owner. mutex_ guards it and the next four.
  size_t waiting_ = 0;                 // Pieces of work, of all owners.
  uint64_t turns_ = 0;                 // Number of turns that have begun.
  size_t idle_ = 0;                    // Number of idle threads.
  bool stopping_ = false;
  std::vector<Thread> threads_;
};

}  // namespace gangway
