// ExecutorService: a Host on the network: it registers with the controller, turns RPC and frames
// into calls of Host, and Host's events into frames.
//
// Threads: the reactor's thread; creating and destroying one suspends.
// Errors: the constructor throws what the controller answers: kInvalid (another version),
// kUnimplemented (another machine), kUnavailable (nobody there). A put or get that Host
// refuses becomes its result. A run that it can't take part in at all ends the connection:
// otherwise the other hosts of the run would wait for this one for ever, while the controller fails
// the run on all of them when a host is lost.
//
// Example:
//   ExecutorService executor(reactor, network, {.controller = "127.0.0.1:7040", .host = host});
//   executor.disconnected().await();  // Serves until the controller is gone.
//
// lasting_executor.h is one that waits for its controller.
#pragma once

#include <memory>
#include <string>

#include "executor/host/host.h"
#include "runtime/fibers/future.h"
#include "runtime/net/frame_options.h"
#include "runtime/net/transport.h"
#include "runtime/observe/log.h"

namespace gangway {

class Connection;

struct ExecutorServiceOptions {
  std::string controller;
  std::string token_file;  // As protocol/token_file.h; empty: where processes look by themselves.
  HostOptions host;
  bool name_is_chosen = false;  // host.name, by the user: it is registered so, or not at all.
  int64_t heartbeat_interval_ms = 1000;
  int64_t connect_timeout_ms = 10'000;
  // How many events of each device it keeps for the controller to show; 0: none. 48 bytes each,
  // twice for each device. Where host.tracer is given, that one's are shown.
  size_t kept_events = 0;
  FrameOptions frames;
  Logger log;
};

class ExecutorService {
 public:
  ExecutorService(Reactor& reactor, Network& network, ExecutorServiceOptions options);
  // Over a connection to the controller that stands (connect_to_controller()).
  ExecutorService(Reactor& reactor, Network& network, Connection connection,
                  ExecutorServiceOptions options);
  ~ExecutorService();
  ExecutorService(const ExecutorService&) = delete;

  // As the controller calls it.
  const std::string& name() const;
  Host& host();
  // Ready, with the reason, when the controller is gone.
  Future<void> disconnected() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Suspends, for options.connect_timeout_ms at most.
Connection connect_to_controller(Reactor& reactor, Network& network,
                                 const ExecutorServiceOptions& options);

}  // namespace gangway
