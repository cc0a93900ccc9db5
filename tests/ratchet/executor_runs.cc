#include "tests/ratchet/executor_runs.h"

#include <memory>
#include <string>
#include <vector>

#include "executor/devices/sim/sim_host.h"
#include "executor/host/host.h"
#include "executor/links/sim_fabric.h"
#include "ir/plan/positions.h"
#include "protocol/frames.h"
#include "runtime/fibers/reactor.h"
#include "tests/ratchet/counting.h"
#include "tests/support/training_step.h"

namespace ratchet {
namespace {

using namespace gangway;  // Functions of gangway are counted, functions of ratchet are not.

constexpr uint32_t kDevices = 2;  // Devices of each host.
constexpr PlanId kPlan{1};

class Runs final : public HostEvents {
 public:
  explicit Runs(uint32_t hosts) {
    const auto fabric = std::make_shared<SimFabric>();
    for (uint32_t h = 0; h < hosts; ++h) {
      hosts_.push_back(std::make_unique<Host>(
          *reactor_,
          HostOptions{.name = "host-" + std::to_string(h),
                      .kind = DeviceKind::kSim,
                      .devices = kDevices,
                      .memory_bytes = int64_t{1} << 20,
                      .threads = 1,
                      .fabric = fabric,
                      .sim = std::make_shared<SimHost>(SimHostOptions{.timed_only = true})},
          *this));
    }
    install(training_step(hosts, kDevices));
  }

  void run_done(RunDoneFrame done) override {
    if (done.error) ++failed;
    encode(done);
    ++ended_;
  }
  void transfer_done(HostTransferDoneFrame) override {}

  void run() {
    const RunId run(++runs_);
    const ArrayId output(runs_);
    const Frame prepare = encode(
        PrepareFrame{.ordinal = runs_ - 1,
                     .run = {.plan = kPlan,
                             .run = run,
                             .arguments = {{0, {}, std::vector<std::byte>(8 * 2 * sizeof(float))},
                                           {1, {}, std::vector<std::byte>(sizeof(float))}},
                             .outputs = {output}}});
    const Frame grant = encode(GrantFrame{{{.run = run,
                                            .slice = kEverySlice,
                                            .count = positions_,
                                            .ticket = Ticket(1 + (runs_ - 1) * positions_)}}});
    ended_ = 0;
    count(prepare, grant);
    for (const auto& host : hosts_) host->free(std::vector<ArrayId>{output});
  }

  int failed = 0;

 private:
  void install(const std::shared_ptr<const Plan>& plan) {
    positions_ = Positions(*plan).total();
    std::vector<LinkOffer> offers;
    for (uint32_t h = 0; h < hosts_.size(); ++h) {
      const Installed installed = hosts_[h]->install(kPlan, plan, h, {1}).take();
      offers.insert(offers.end(), installed.offers.begin(), installed.offers.end());
    }
    for (const auto& host : hosts_) host->link(kPlan, offers);
    for (const auto& host : hosts_) host->commit_install(kPlan).await();
  }

  void count(const Frame& prepare, const Frame& grant) {
    const Counted counted;
    for (const auto& host : hosts_) host->prepare(std::get<PrepareFrame>(decode(prepare)));
    for (const auto& host : hosts_) host->grant(std::get<GrantFrame>(decode(grant)));
    reactor_->run_until([this] { return ended_ == hosts_.size(); });
  }

  const std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  std::vector<std::unique_ptr<Host>> hosts_;
  uint32_t positions_ = 0;  // Positions of a run.
  uint64_t runs_ = 0;
  size_t ended_ = 0;  // Number of hosts that have ended this run.
};

}  // namespace

bool count_executors(int hosts) {
  constexpr int kUncounted = 3, kRuns = 20;
  Runs runs(static_cast<uint32_t>(hosts));
  for (int run = 0; run < kUncounted; ++run) runs.run();
  {
    const Case counted("executor, one of " + std::to_string(hosts) + " hosts", kRuns * hosts);
    for (int run = 0; run < kRuns; ++run) runs.run();
  }
  return runs.failed == 0;
}

}  // namespace ratchet
