// LastingExecutor: an executor that outlives its controllers.
//
// It waits, with back-off, for a controller that is not there yet or has gone away, and registers
// with the next one at that address, under the name that it had. Each registration begins with an
// empty Host: whatever plans, arrays and states of the last one were left are dropped before the
// first attempt. A controller that counts it as lost, and says so, is registered with again too.
//
// Threads: the reactor's thread, with a fiber of its own; destroying one suspends.
// Errors: ended() carries what waiting does not mend: another version, another machine, no token,
// and kUnavailable once `limit_ms` is over.
// Cost: of waiting: one attempt of up to a second, then a pause of up to five. Its log says so at
// the first failure, then once a minute.
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
  std::optional<int64_t> limit_ms;   // Without a controller for so long it ends; none: never.
  bool is_ended_with_first = false;  // Ends when the first controller that took it has gone.
};

class LastingExecutor {
 public:
  LastingExecutor(Reactor& reactor, Network& network, ExecutorServiceOptions options,
                  const ControllerWait& wait = {});
  ~LastingExecutor();
  LastingExecutor(const LastingExecutor&) = delete;

  // Null while it has no controller.
  ExecutorService* service() { return is_registered_ ? service_.get() : nullptr; }
  Future<void> ended() const { return ended_.future(); }

 private:
  void serve();
  // One attempt; suspends.
  Result<void> try_to_register();
  // Suspends until the controller has gone.
  void serve_controller();
  // Throws once waiting is over, or does not help; suspends otherwise.
  void pause_after(const Error& why);
  void log_waiting(const Error& why);
  // For how long it has had no controller.
  int64_t alone_ns() const;

  Reactor& reactor_;
  Network& network_;
  ExecutorServiceOptions options_;
  const ControllerWait wait_;
  BackOff back_off_;
  int64_t alone_since_ns_;
  std::optional<int64_t> logged_ns_;  // When it last said that it waits; none: it does not.
  std::unique_ptr<ExecutorService> service_;
  bool is_registered_ = false;
  // It is being destroyed: its fiber may have spent its cancellation where that is not told.
  bool is_over_ = false;
  Promise<void> ended_;
  FiberGroup fibers_;
};

}  // namespace gangway
