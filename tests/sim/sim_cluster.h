// SimCluster: a controller and executors on simulated devices, in one thread on virtual time.
//
// Threads: the reactor's.
// Ownership: the reactor and the tracer outlive it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/client_impl.h"
#include "controller/service/service.h"
#include "executor/links/sim_fabric.h"
#include "executor/service/service.h"
#include "runtime/net/sim_network.h"
#include "runtime/observe/trace.h"

namespace gangway {

// Simulated hosts of two devices each, on a network with delay.
class SimCluster {
 public:
  SimCluster(Reactor& reactor, int hosts, Tracer* tracer = nullptr)
      : network(reactor,
                {.delay = std::chrono::microseconds(50), .jitter = std::chrono::microseconds(20)}),
        controller(reactor, network.endpoint("controller"), {.address = "sim:controller"}) {
    auto fabric = std::make_shared<SimFabric>();
    for (int i = 0; i < hosts; ++i) {
      const std::string name = "host-" + std::to_string(i);
      executors.push_back(std::make_unique<ExecutorService>(
          reactor, network.endpoint(name),
          ExecutorServiceOptions{.controller = "sim:controller",
                                 .host = {.name = name,
                                          .kind = DeviceKind::kSim,
                                          .devices = 2,
                                          .memory_bytes = 64 << 20,
                                          .threads = 1,
                                          .tracer = tracer,
                                          .fabric = fabric}}));
    }
  }
  ~SimCluster() { executors.clear(); }

  SimNetwork network;
  ControllerService controller;
  std::vector<std::unique_ptr<ExecutorService>> executors;
};

// Runs body(cluster, client) in a fiber, and closes the client when its handles are gone.
template <class Body>
void with_client(Reactor& reactor, int hosts, Tracer* tracer, Body body) {
  reactor.run([&] {
    SimCluster cluster(reactor, hosts, tracer);
    const Client client =
        internal::connect_on(reactor, cluster.network.endpoint("client"), "sim:controller");
    body(cluster, client);
    client.close();
  });
}

}  // namespace gangway
