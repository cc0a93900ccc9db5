#include "tests/cuda/cuda_cluster.h"

#include "client/client_impl.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "runtime/net/sim_network.h"

namespace gangway {

void with_cluster(HostOptions host, const std::function<void(const Client&)>& body) {
  const auto reactor = Reactor::make_real();
  reactor->run([&] {
    SimNetwork network(*reactor);
    ControllerService controller(*reactor, network.endpoint("controller"),
                                 {.address = "sim:controller"});
    host.name = "host-0";
    if (host.memory_bytes == 0) host.memory_bytes = int64_t{32} << 20;
    ExecutorService executor(*reactor, network.endpoint("host-0"),
                             {.controller = "sim:controller", .host = host});
    const Client client =
        internal::connect_on(*reactor, network.endpoint("client"), "sim:controller");
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
