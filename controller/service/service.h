// ControllerService: a controller on a network. Executors and clients find it at one address.
//
// It turns RPC (protocol/control.capnp) and frame streams into calls of Controller, and the
// controller's calls of its peers into RPC and frames. A peer whose frames are malformed, whose
// queue grows without end, or whose frame connection is lost and does not come back is dropped: an
// executor is then lost, a client's session closed. An executor is lost with its RPC connection too
// (its process has gone); a client may come back to its session (client_sessions.h).
//
// Threads: the reactor's thread; creating and destroying one suspends briefly.
// Trust: only the user who runs the controller may add executors, or under TLS only the certificate
// of a host of the executor's name. The log says who was refused, and why.
// Errors: the constructor throws kInvalid for a bad address and for a port in use.
//
// Example:
//   ControllerService service(reactor, network, {.address = "127.0.0.1:7040"});
//   print(service.address());
#pragma once

#include <memory>
#include <string>

#include "controller/controller.h"
#include "controller/service/state_dir.h"
#include "controller/service/tokens.h"
#include "runtime/net/frame_options.h"
#include "runtime/net/transport.h"

namespace gangway {

struct ControllerServiceOptions {
  std::string address = "127.0.0.1:0";
  ControllerOptions controller;
  FrameOptions frames;  // Options of each peer's stream. Its name is replaced by the peer's.
  // Finds the owner of a peer over TCP (controller/service/tokens.h). Null: such peers are refused.
  std::shared_ptr<TokenTable> tokens;
  // Address of the metrics over HTTP (controller/service/metrics_server.h). Empty: no metrics.
  std::string metrics_address = {};
  std::shared_ptr<StateDir> state;  // Keeps data for the next controller. Null: none is kept.
};

class ControllerService {
 public:
  ControllerService(Reactor& reactor, Network& network, ControllerServiceOptions options = {});
  ~ControllerService();
  ControllerService(const ControllerService&) = delete;

  const std::string& address() const;
  const std::string& metrics_address() const;  // Empty without metrics over HTTP.
  Controller& controller();
  // Whether it takes new clients: until end_in_order() is called.
  bool is_ready() const;

  // For a process that has to end. Takes no new clients, asks the clients' programs to end
  // (ConnectOptions::on_stop), except for those that the next controller goes on with, and waits
  // until checkpoints that are being written are on the disk. Suspends for `grace_ms` at most, and
  // until `at_once` is stopped. Programs that are left end with this object.
  void end_in_order(int64_t grace_ms, const StopToken& at_once = {});
  // Replaces the quotas. Holders keep what they hold.
  void set_quotas(Quotas quotas);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gangway
