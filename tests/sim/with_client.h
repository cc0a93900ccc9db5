// Runs a test's body with a small simulated cluster and one client.
//
// Threads: the reactor's.
// Ownership: the reactor and the tracer outlive it.
#pragma once

#include "client/client.h"
#include "runtime/fibers/reactor.h"
#include "sim/sim_cluster.h"

namespace gangway {

// Runs body(cluster, client) in a fiber, and closes the client when its handles are gone.
template <class Body>
void with_client(Reactor& reactor, const SimClusterOptions& options, Body body) {
  reactor.run([&] {
    SimCluster cluster(reactor, options);
    const Client client = cluster.connect("client");
    body(cluster, client);
    client.close();
  });
}

}  // namespace gangway
