// LastingExecutor: an executor that outlives its controllers.
//
// It waits, with back-off, for a controller that does not exist yet or has gone away, and registers
// with the next one at that address, under the same name. Each registration begins with an empty
// Host: plans, arrays and states left from the last controller are dropped before the first
// attempt. If a controller counts the executor as lost, and says so, the executor registers with it
// again.
//
// Threads: the reactor's thread, with a fiber of its own; destroying one suspends.
// Errors: ended() carries errors that waiting does not mend: another version, another machine, no
// token, and kUnavailable once `limit_ms` is over.
// Cost while it waits: one attempt of up to a second, then a pause of up to five. Its log has a
// line at the first failure, then one a minute.
//
// Example:
//   LastingExecutor executor(reactor, network, {.controller = address, .host = host});
//   executor.ended().await();
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "executor/service/back_off.h"
#include "executor/service/service.h"
#include "runtime/fibers/fiber_group.h"

namespace gangway {

struct ControllerWait {
  std::optional<int64_t> limit_ms;   // It ends after this long without a controller; none: never.
  bool is_ended_with_first = false;  // It ends when the first controller that accepted it has gone.
};

class LastingExecutor {
 public:
  LastingExecutor(Reactor& reactor, Network& network, ExecutorServiceOptions options,
                  const ControllerWait& wait = {});
  ~LastingExecutor();
  LastingExecutor(const LastingExecutor&) = delete;

  // Null while there is no controller.
  ExecutorService* service() { return is_registered_ ? service_.get() : nullptr; }
  Future<void> ended() const { return ended_.future(); }

 private:
  void serve();
  // One attempt; suspends.
  Result<void> try_to_register();
  // Suspends until the controller has gone.
  void serve_controller();
  // Throws once the time is over, or if waiting does not help; suspends otherwise.
  void pause_after(const Error& why);
  void log_waiting(const Error& why);
  // How long it has had no controller.
  int64_t alone_ns() const;

  Reactor& reactor_;
  Network& network_;
  ExecutorServiceOptions options_;
  const ControllerWait wait_;
  BackOff back_off_;
  int64_t alone_since_ns_;
  // Time of the last log line on waiting; none: it does not wait.
  std::optional<int64_t> logged_ns_;
  std::unique_ptr<ExecutorService> service_;
  bool is_registered_ = false;
  // It is being destroyed. The fiber needs this flag, since its cancellation may have been consumed
  // by a call that does not report it.
  bool is_over_ = false;
  Promise<void> ended_;
  FiberGroup fibers_;
};

}  // namespace gangway
