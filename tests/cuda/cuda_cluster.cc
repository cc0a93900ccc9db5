#include "tests/cuda/cuda_cluster.h"

#include "client/session.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "runtime/net/sim_network.h"

namespace gangway {

CudaCluster::CudaCluster(Reactor& reactor, std::vector<HostOptions> hosts,
                         const std::string& policy)
    : reactor_(reactor),
      network_(std::make_unique<SimNetwork>(reactor)),
      controller_(std::make_unique<ControllerService>(
          reactor, network_->endpoint("controller"),
          ControllerServiceOptions{.address = "sim:controller",
                                   .controller = {.policy = policy}})) {
  const std::shared_ptr<OrderLog> order_log = checked_order_log();
  for (HostOptions& host : hosts) {
    if (host.order_log == nullptr) host.order_log = order_log;
    host.name = cat("host-", executors_.size());
    if (host.memory_bytes == 0) host.memory_bytes = int64_t{32} << 20;
    executors_.push_back(std::make_unique<ExecutorService>(
        reactor, network_->endpoint(host.name),
        ExecutorServiceOptions{.controller = "sim:controller", .host = host}));
  }
}

CudaCluster::~CudaCluster() = default;

Client CudaCluster::connect(const std::string& name) {
  return internal::connect_on(reactor_, network_->endpoint(name), "sim:controller", {.name = name});
}

void with_cluster(HostOptions host, const std::function<void(const Client&)>& body) {
  const auto reactor = Reactor::make_real();
  reactor->run([&] {
    CudaCluster cluster(*reactor, {std::move(host)});
    Client client = cluster.connect("client");
    body(client);
    client.close();
  });
}

std::vector<float> losses_on(const HostOptions& host, const programs::LanguageModelConfig& config,
                             int64_t steps, float lr) {
  std::vector<float> losses;
  with_cluster(host, [&](const Client& client) {
    const Slice slice = client.allocate({.devices = host.devices});
    const Mesh mesh = slice.mesh({{"data", host.devices}});
    const Executable step = slice.compile(programs::train_step(config, mesh));
    for (int64_t i = 1; i <= steps; ++i) {
      const Run run = step.run({{"lr", lr}, {"step", static_cast<float>(i)}});
      losses.push_back(run["loss"].item<float>());
    }
  });
  return losses;
}

}  // namespace gangway
