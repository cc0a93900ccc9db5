#include "tests/cuda/hosts/crossing_cards.h"

#include <algorithm>

#include "tests/cuda/cuda_cluster.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr uint32_t kHosts = 4, kCardsEach = 2;

std::vector<HostOptions> hosts_on(const std::shared_ptr<emulated::EmulatedMachine>& machine,
                                  const std::shared_ptr<OrderLog>& log) {
  std::vector<HostOptions> hosts;
  for (uint32_t h = 0; h < kHosts; ++h) {
    HostOptions& host = hosts.emplace_back();
    host.island = cat("island-", h / 2);
    host.kind = DeviceKind::kCuda;
    host.devices = kCardsEach;
    host.memory_bytes = int64_t{16} << 20;
    host.threads = 1;
    host.order_log = log;
    for (uint32_t card = 0; card < kCardsEach; ++card)
      host.gpus.push_back(emulated::driver_of(machine, h * kCardsEach + card));
  }
  return hosts;
}

}  // namespace

CrossedCards cross_cards(const CrossingCards& scene) {
  const auto machine = emulated::make_machine(tests::test_seed(), kHosts * kCardsEach);
  const auto log = std::make_shared<OrderLog>();
  const auto reactor = Reactor::make_real();
  CrossedCards all;
  reactor->run([&] {
    CudaCluster cluster(*reactor, hosts_on(machine, log), scene.policy);
    cross([&](const std::string& name) { return cluster.connect(name); }, scene.runs, all);
  });
  all.broken = broken_order(*log);
  all.meetings = std::ranges::count_if(log->steps(), &OrderedStep::in_order);
  all.reports = machine->report_text();
  return all;
}

}  // namespace gangway
