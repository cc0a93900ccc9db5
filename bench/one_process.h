// OneProcess: a whole cluster on the caller's reactor that shows its inside: the frames that hosts
// sent and received, and the work of their devices with its times.
//
// Why: a benchmark sees frames and kernels as they happen, without asking and waiting.
//
// Threads: the caller's thread is the reactor of client, controller and executors; devices have
// threads of their own.
// Ownership: the client's handles must be destroyed before the OneProcess is.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "client/client.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/frames.h"
#include "runtime/net/sim_network.h"
#include "runtime/observe/trace.h"

namespace gangway::bench {

class OneProcess {
 public:
  struct Shape {
    int executors = 1;
    int devices = 1;
    bool traced = false;
  };
  explicit OneProcess(const Shape& shape);
  ~OneProcess();
  OneProcess(const OneProcess&) = delete;

  const Client& client() const { return *client_; }
  // Frames and bytes between the controller and one host, both ways.
  uint64_t frames(size_t host) const;
  uint64_t frame_bytes(size_t host) const;
  // Events recorded since the last call.
  TraceDump drain() { return tracer_.drain(); }

 private:
  FrameCounts counts(size_t host) const;

  std::unique_ptr<Reactor> reactor_;
  Tracer tracer_;
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<ControllerService> controller_;
  std::vector<std::unique_ptr<ExecutorService>> executors_;
  std::optional<Client> client_;
};

}  // namespace gangway::bench
