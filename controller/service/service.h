// ControllerService: a controller on a network. Executors and clients find it at one address.
//
// RPC (protocol/control.capnp) and frame streams turn into calls of Controller, and its peers'
// calls into RPC and frames. A peer whose frames are malformed, whose queue grows without end, or
// whose frame connection is lost and does not come back is dropped: its executor is lost, its
// client's session is closed. An executor is lost with its RPC connection too (its process has
// gone); a client may come back to its session (client_sessions.h).
//
// Threads: the reactor's thread; creating and destroying one suspends briefly.
// Trust: only who runs the controller may offer it executors. Who is refused, and why, is logged.
// Errors: the constructor throws kInvalid for a bad address and for a port in use.
//
// Example:
//   ControllerService service(reactor, network, {.address = "127.0.0.1:7040"});
//   print(service.address());
#pragma once

#include <memory>
#include <string>

#include "controller/service/controller.h"
#include "controller/service/state_dir.h"
#include "controller/service/tokens.h"
#include "runtime/net/frame_options.h"
#include "runtime/net/transport.h"

namespace gangway {

struct ControllerServiceOptions {
  std::string address = "127.0.0.1:0";
  ControllerOptions controller;
  FrameOptions frames;  // Of each peer's stream; it is named after the peer.
  // Whose peers are who connect over TCP (controller/service/tokens.h). Null: they are refused.
  std::shared_ptr<TokenTable> tokens;
  // Where its metrics are read over HTTP (controller/service/metrics_server.h); empty: nowhere.
  std::string metrics_address = {};
  std::shared_ptr<StateDir> state;  // What outlives this one is kept there; null: nothing does.
};

class ControllerService {
 public:
  ControllerService(Reactor& reactor, Network& network, ControllerServiceOptions options = {});
  ~ControllerService();
  ControllerService(const ControllerService&) = delete;

  const std::string& address() const;
  const std::string& metrics_address() const;  // Empty: nowhere.
  Controller& controller();

  // For a process that was told to end: takes no new clients, has the programs of clients end by
  // themselves (ConnectOptions::on_stop), but for those that the next controller goes on with, and
  // sees to it that checkpoints which are being written get to the disk. All that at most for
  // `grace_ms`, and until `at_once` is stopped. Suspends. What is left ends with this object.
  void end_in_order(int64_t grace_ms, const StopToken& at_once = {});
  // In place of those that it had: what is held already stays.
  void set_quotas(Quotas quotas);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gangway
