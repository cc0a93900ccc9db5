// ExecutorService: a Host on the network: it registers with the controller, turns RPC and frames
// into calls of Host, and Host's events into frames.
//
// Threads: the reactor's thread; creating and destroying one suspends.
// Errors: the constructor throws the controller's answer, kInvalid (another version) or
// kUnimplemented (another machine), or kUnavailable (no controller). A put or get that Host refuses
// becomes its result. A run that the host can't take part in at all ends the connection: otherwise
// the other hosts of the run would wait for this one for ever, while the controller fails the run
// on all of them when a host is lost.
//
// Example:
//   ExecutorService executor(reactor, network, {.controller = "127.0.0.1:7040", .host = host});
//   executor.disconnected().await();  // Serves until the controller is gone.
//
// lasting_executor.h wraps it in an executor that waits for its controller.
#pragma once

#include <cstddef>
#include <map>
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
  std::string token_file;  // See protocol/token_file.h; empty: the default path.
  HostOptions host;
  bool name_is_chosen = false;  // The user set host.name: no other name is tried.
  int64_t heartbeat_interval_ms = 1000;
  int64_t connect_timeout_ms = 10'000;
  // Number of events of each device that are kept for the controller to show; 0: none. An event
  // takes 48 bytes, and each device keeps that many twice. If host.tracer is given, its events are
  // shown instead.
  size_t kept_events = 0;
  FrameOptions frames;
  Logger log;
};

class ExecutorService {
 public:
  ExecutorService(Reactor& reactor, Network& network, ExecutorServiceOptions options);
  // Takes an open connection to the controller (connect_to_controller()).
  ExecutorService(Reactor& reactor, Network& network, Connection connection,
                  ExecutorServiceOptions options);
  ~ExecutorService();
  ExecutorService(const ExecutorService&) = delete;

  // The name that the controller uses.
  const std::string& name() const;
  Host& host();
  // The host's census, with the segments of checkpoints that the service holds for the controller's
  // calls.
  std::map<std::string, size_t> census() const;
  // Ready, with the reason, when the controller is gone.
  Future<void> disconnected() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Suspends, for at most options.connect_timeout_ms.
Connection connect_to_controller(Reactor& reactor, Network& network,
                                 const ExecutorServiceOptions& options);

}  // namespace gangway
