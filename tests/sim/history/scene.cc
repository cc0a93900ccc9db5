#include "tests/sim/history/scene.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/fibers/fiber_group.h"
#include "runtime/os/landing_log.h"
#include "runtime/os/temp_dir.h"
#include "sim/faults.h"
#include "tests/sim/history/director.h"
#include "tests/sim/history/driving_client.h"
#include "tests/sim/history/model.h"
#include "tests/sim/history/onlookers.h"
#include "tests/sim/history/repeating_client.h"
#include "tests/sim/sim_time.h"

namespace gangway::history {
namespace {

constexpr int64_t kHostTimeoutMs = 4000;
constexpr int64_t kLeaseMs = 10 * kHostTimeoutMs;
// After each of two restarts, a program that has fewer devices than before waits for the others for
// half a minute, and then a lease runs out.
constexpr int64_t kTimeLimitNs = 400 * kSecond;
constexpr int kEndpoints = 4;  // Endpoints whose links may have faults.

// Faults by which neither a host nor memory is lost.
std::vector<Fault> harmless_faults(uint64_t seed, const Drawn& drawn) {
  if (!drawn.has_faults) return {};
  std::vector<Fault> faults = draw_faults(seed, {.hosts = drawn.hosts,
                                                 .clients = kEndpoints,
                                                 .within_ns = 40 * kMillisecond,
                                                 .host_timeout_ns = kHostTimeoutMs * kMillisecond,
                                                 .count_max = 4});
  std::erase_if(faults, [](const Fault& fault) {
    return may_fail_runs(fault, kHostTimeoutMs * kMillisecond);
  });
  return faults;
}

std::string all_of(const History& history) {
  std::string text;
  for (const Op& op : history.ops()) text += to_string(op) + "\n";
  return text;
}

// Fills the report at its end, also if the simulation passed its time limit.
struct WhatHappened {
  ~WhatHappened() {
    report.events = director.events();
    for (const auto& [fault, at_ns] : faults.happened()) report.events.push_back(to_string(fault));
    report.history = all_of(stage.history);
  }
  SceneReport& report;
  const Stage& stage;
  const Director& director;
  const FaultInjector& faults;
};

// Waits until all resources of clients are freed, or until leases must have run out.
void wait_until_freed(Reactor& reactor, const SimCluster& cluster) {
  const int64_t until_ns =
      reactor.clock().now_ns() + (3 * kHostTimeoutMs + kLeaseMs) * kMillisecond;
  while (cluster.controller.controller().counts().total() > 0 &&
         reactor.clock().now_ns() < until_ns)
    pass(reactor, kSecond);
}

void play_on(Reactor& reactor, uint64_t seed, const TempDir& root, FrameMeddler* meddler,
             SceneReport& report) {
  const Drawn& drawn = report.drawn;
  const Rng rng(seed, 0x5CE4E);
  std::vector<std::shared_ptr<LandingLog>> landings;
  SimCluster cluster(reactor, {.hosts = drawn.hosts,
                               .heartbeat_interval_ms = kHostTimeoutMs / 10,
                               .host_timeout_ms = kHostTimeoutMs,
                               .lease_ms = kLeaseMs,
                               .checkpoint_folder = (root.path() / "kept").string(),
                               .state_folder = (root.path() / "state").string(),
                               .time = ProcessTime::kModelled,
                               .new_landings = [&] {
                                 landings.push_back(std::make_shared<LandingLog>());
                                 return landings.back();
                               }});
  if (meddler != nullptr) meddler->stand_in(cluster.network);
  Stage stage(reactor, cluster, drawn);
  std::vector<std::unique_ptr<DrivingClient>> driving;
  std::vector<std::unique_ptr<RepeatingClient>> repeating;
  FaultInjector faults(reactor, cluster, harmless_faults(seed, drawn));
  Director director(stage, rng.fork(1), kHostTimeoutMs);
  const WhatHappened happened{report, stage, director, faults};
  WaitQueue ended;
  int living = 0;
  FiberGroup fibers(reactor);  // They end before the data they use, also if this one is cancelled.
  const auto spawn = [&](const std::string& name, auto body) {
    ++living;
    fibers.spawn(name, [&ended, &living, body] {
      body();
      --living;
      ended.wake_all();
    });
  };
  Rng kinds = rng.fork(0);
  for (int i = 0; i < drawn.programs; ++i) {
    const std::string name = cat("trainer-", i);
    const Rng own = rng.fork(10 + static_cast<uint64_t>(i));
    if (drawn.restarts > 0 || kinds.chance(0.3)) {
      repeating.push_back(std::make_unique<RepeatingClient>(stage, own, name));
      spawn(name, [client = repeating.back().get()] { client->live(); });
    } else {
      driving.push_back(std::make_unique<DrivingClient>(stage, own, name));
      spawn(name, [client = driving.back().get()] { client->live(); });
    }
  }
  if (drawn.is_read) spawn("reader", [&] { read_along(stage, rng.fork(2)); });
  if (drawn.suspends) spawn("suspender", [&] { suspend_at_random(stage, rng.fork(3)); });
  director.direct();
  while (living > 0) ended.wait("for the clients to end");
  faults.finish();
  wait_until_freed(reactor, cluster);
  report.lost = director.lost();
  report.restarted = director.restarted();
  for (const Op& op : stage.history.ops()) report.told += op.outcome == Outcome::kTold ? 1 : 0;
  if (const auto misfit = find_misfit(stage.history))
    report.problems.push_back(explain(stage.history, *misfit));
  for (const std::string& problem : stage.problems) report.problems.push_back(problem);
  for (const auto& log : landings) {
    if (const std::string broken = log->broken(); !broken.empty())
      report.problems.push_back(broken);
  }
  const uint64_t left = cluster.controller.controller().counts().total();
  if (left > 0) report.problems.push_back(cat(left, " things are left behind"));
}

}  // namespace

SceneReport play(uint64_t seed, const NewMeddler& meddler) {
  SceneReport report{.drawn = draw(seed)};
  const TempDir root;
  std::optional<FrameMeddler> between;  // Outlives the cluster.
  if (meddler != nullptr) between.emplace(meddler());
  const auto reactor = Reactor::make_simulated({.seed = seed, .time_limit_ns = kTimeLimitNs});
  reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
  };
  try {
    reactor->run([&] { play_on(*reactor, seed, root, between ? &*between : nullptr, report); });
  } catch (const Error& error) {
    report.problems.push_back(error.what());
  }
  for (const std::string& problem : report.problems) require_machine(problem);
  return report;
}

std::string to_string(const SceneReport& report) {
  std::string text = to_string(report.drawn) + "\n";
  for (const std::string& event : report.events) text += event + "\n";
  for (const std::string& problem : report.problems) text += problem + "\n";
  return text;
}

}  // namespace gangway::history
