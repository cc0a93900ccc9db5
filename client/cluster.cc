#include "client/cluster.h"

#include <unistd.h>

#include <algorithm>

#include "ir/plan/islands.h"
#include "runtime/os/thread.h"
#include "runtime/tls/tls_files.h"

namespace gangway::internal {
namespace {

class Joined final : public Cluster {
 public:
  Joined(Reactor& reactor, std::string address, const std::string& folder)
      : network_(reactor, tls_folder(folder)), address_(std::move(address)) {}
  Network& network() override { return network_; }
  const std::string& address() const override { return address_; }
  bool ends_with_client() const override { return false; }

 private:
  SocketNetwork network_;
  std::string address_;
};

}  // namespace

int64_t memory_share(const LocalShape& shape, const ConnectOptions& options) {
  if (options.memory_bytes > 0) return options.memory_bytes;
  const int64_t machine =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return machine / 10 * 9 / (shape.executors * shape.devices);
}

int thread_share(const LocalShape& shape) {
  return std::max(1, available_cores() / (shape.executors * shape.devices));
}

std::string island_name(int executor, const LocalShape& shape, const ConnectOptions& options) {
  if (options.islands == 1) return kMainIsland;
  return cat("island-", executor * options.islands / shape.executors);
}

std::unique_ptr<Cluster> join_cluster(Reactor& reactor, const std::string& address,
                                      const std::string& folder) {
  return std::make_unique<Joined>(reactor, address, folder);
}

}  // namespace gangway::internal
