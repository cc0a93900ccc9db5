// Cluster: a network, an address, and the objects that must live as long as a client is connected.
//
// Threads: created, used and destroyed on the client's reactor. Starting and destroying one
// suspends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "runtime/net/transport.h"

namespace gangway::internal {

class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual Network& network() = 0;
  virtual const std::string& address() const = 0;
  virtual bool ends_with_client() const { return true; }
  // Ends it in an orderly way. Returns the traces of its members where ConnectOptions ask for a
  // trace (see to_chrome_json).
  virtual std::vector<std::string> stop() { return {}; }
};

// An equal share of the machine for each device of a local cluster.
int64_t memory_share(const LocalShape& shape, const ConnectOptions& options);
int thread_share(const LocalShape& shape);
// Island of a local cluster's executor: executors are dealt out to options.islands in runs.
std::string island_name(int executor, const LocalShape& shape, const ConnectOptions& options);

// `folder`: the tls_folder of ConnectOptions.
std::unique_ptr<Cluster> join_cluster(Reactor& reactor, const std::string& address,
                                      const std::string& folder);
// client/local/.
std::unique_ptr<Cluster> start_in_process(Reactor& reactor, const LocalShape& shape,
                                          const ConnectOptions& options);
std::unique_ptr<Cluster> start_processes(Reactor& reactor, const LocalShape& shape,
                                         const ConnectOptions& options);

}  // namespace gangway::internal
