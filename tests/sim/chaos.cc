#include "tests/sim/chaos.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "controller/scheduler/policies/policy.h"
#include "runtime/fibers/fiber_group.h"
#include "tests/sim/chaos_client.h"
#include "tests/sim/sim_time.h"
#include "tests/support/order_check.h"

namespace gangway {
namespace {

constexpr int64_t kHostTimeoutMs = 4000;
constexpr int64_t kHeartbeatMs = 400;
constexpr int64_t kTimeLimitNs = 600'000 * kMillisecond;
// Longer than any fault keeps a client from coming back.
constexpr int64_t kLeaseMs = 10 * kHostTimeoutMs;

using Clients = std::vector<std::unique_ptr<ChaosClient>>;

using Faults = std::vector<FaultInjector::Happened>;

// A client gets a failure within its time, and a fault of one of its hosts or links must explain
// the failure; it must get no other error.
void look_at_error(const ChaosClient& client, const Faults& all,
                   std::vector<std::string>& problems) {
  const int64_t timeout_ns = kHostTimeoutMs * kMillisecond;
  int64_t bound_ns = timeout_ns + timeout_ns / 4 + (kHeartbeatMs + 600) * kMillisecond;
  bool ends = false, is_named_in_time = false, is_explained = false;
  for (const auto& [fault, at_ns] : all) {
    if (fault.kind == FaultKind::kStopController || (fault.client && client.is_hit_by(fault)))
      bound_ns += fault.for_ns;
  }
  const std::string text = client.error->what();
  // The error of a run past its time limit names the hosts that do not answer. They may wait for a
  // host at fault, also in another client's collective that blocks their devices.
  const bool is_unanswered = text.find("has not answered") != std::string::npos;
  for (const auto& [fault, at_ns] : all) {
    if (!client.is_hit_by(fault) && !is_unanswered) continue;
    const bool is_before = at_ns <= client.error_at_ns;
    const bool is_named = fault.client || is_unanswered || !client.has_program() ||
                          text.find(SimCluster::host_name(fault.host)) != std::string::npos;
    if (is_before && is_named && may_fail_runs(fault, timeout_ns)) is_explained = true;
    if (!ends_host(fault, timeout_ns)) continue;
    ends = true;
    if (client.error_at_ns <= at_ns + bound_ns) is_named_in_time = true;
  }
  if (!is_explained) problems.push_back(cat(client.name(), ": no fault explains: ", text));
  if (ends && !is_named_in_time) problems.push_back(cat(client.name(), ": named too late: ", text));
}

void look_at_leaks(SimCluster& cluster, std::vector<std::string>& problems) {
  const ControllerCounts left = cluster.controller.controller().counts();
  if (left.total() > 0) {
    problems.push_back(cat("the controller still counts ", left.clients, " clients, ", left.slices,
                           " slices, ", left.plans, " plans, ", left.arrays, " arrays, ", left.runs,
                           " runs and ", left.transfers, " copies"));
  }
  for (const auto& executor : cluster.executors) {
    if (executor == nullptr || executor->disconnected().ready()) continue;
    for (int d = 0; d < cluster.options().devices_per_host; ++d) {
      const int64_t bytes = executor->host().bytes_in_use(static_cast<uint32_t>(d));
      if (bytes > 0) problems.push_back(cat(executor->name(), " still holds ", bytes, " bytes"));
    }
  }
}

// An executor gives up when it refuses a frame; nothing but a fault may end an executor.
void look_at_executors(const SimCluster& cluster, const Faults& faults,
                       std::vector<std::string>& problems) {
  for (int host = 0; host < cluster.options().hosts; ++host) {
    const auto& executor = cluster.executors[static_cast<size_t>(host)];
    if (executor == nullptr || !executor->disconnected().ready()) continue;
    const bool is_explained = std::any_of(faults.begin(), faults.end(), [&](const auto& happened) {
      return happened.fault.host == host &&
             ends_host(happened.fault, kHostTimeoutMs * kMillisecond / 2);
    });
    if (is_explained) continue;
    try {
      executor->disconnected().await();
    } catch (const Error& why) {
      problems.push_back(cat(SimCluster::host_name(host), " ended: ", why.what()));
    }
  }
}

// Runs that lose a host stop on each device at whichever point it has reached.
void look_at_order(const OrderLog& log, const Faults& faults, std::vector<std::string>& problems) {
  const bool is_cut = std::any_of(faults.begin(), faults.end(), [](const auto& happened) {
    return may_fail_runs(happened.fault, kHostTimeoutMs * kMillisecond);
  });
  const std::string broken = broken_order(log, is_cut ? RunsAre::kPerhapsCut : RunsAre::kWhole);
  if (!broken.empty()) problems.push_back("the order of tickets is broken: " + broken);
}

SimClusterOptions draw_cluster(Rng& rng) {
  const int hosts = 1 << (1 + rng.below(3));
  return {.hosts = hosts,
          .devices_per_host = 1 << rng.below(2),
          .islands = rng.chance(0.5) ? 1 : 2,
          .heartbeat_interval_ms = kHeartbeatMs,
          .host_timeout_ms = kHostTimeoutMs,
          .lease_ms = kLeaseMs,
          .time = rng.chance(0.5) ? ProcessTime::kFree : ProcessTime::kModelled,
          .order_log = std::make_shared<OrderLog>(),
          .charge_log = std::make_shared<ChargeLog>()};
}

std::vector<Fault> faults_of(ChaosScene scene, uint64_t seed, Rng& rng, const FaultLimits& limits) {
  if (scene == ChaosScene::kAny) return draw_faults(seed, limits);
  const auto hosts = static_cast<uint64_t>(limits.hosts);
  const auto at_ns = static_cast<int64_t>(rng.below(static_cast<uint64_t>(limits.within_ns)));
  return {{.kind = FaultKind::kKill, .at_ns = at_ns, .host = static_cast<int>(rng.below(hosts))}};
}

void run_on(Reactor& reactor, uint64_t seed, FrameMeddler* meddler, ChaosScene scene,
            ChaosReport& report) {
  Rng rng(seed, 0xC4A05);
  SimClusterOptions drawn = draw_cluster(rng);
  const std::vector<std::string> policies = policy_names();
  drawn.policy = policies[seed % policies.size()];
  // Less than any stream carries in all, so acknowledgements must come.
  drawn.frames = {.queued_bytes_max = 16 << 10};
  const bool is_any = scene == ChaosScene::kAny;
  if (!is_any) drawn.hosts = std::max(drawn.hosts, 4);
  SimCluster cluster(reactor, drawn);
  if (meddler != nullptr) meddler->stand_in(cluster.network);
  const auto count = is_any ? static_cast<int>(1 + rng.below(3)) : 4;
  FaultInjector faults(reactor, cluster,
                       faults_of(scene, seed, rng,
                                 {.hosts = cluster.options().hosts,
                                  .clients = count,
                                  .within_ns = 40 * kMillisecond,
                                  .host_timeout_ns = kHostTimeoutMs * kMillisecond}));
  Clients clients;
  WaitQueue ended;
  int living = count;
  FiberGroup fibers(reactor);  // They end before the clients, also if this fiber is cancelled.
  for (int i = 0; i < count; ++i) {
    ChaosClient& client = *clients.emplace_back(
        std::make_unique<ChaosClient>(reactor, cluster, rng.fork(static_cast<uint64_t>(i)), i));
    if (!is_any) client.wait_for_each();
    fibers.spawn("client", [&client, &ended, &living] {
      client.live();
      if (--living == 0) ended.wake_all();
    });
  }
  while (living > 0) ended.wait("for the clients to end");
  report.replay_hash = cluster.replay_hash();
  faults.finish();
  WaitQueue().wait_until_ns(
      "for what clients held to be freed",
      reactor.clock().now_ns() + (3 * kHostTimeoutMs + kLeaseMs) * kMillisecond);
  report.scene = cat(cluster.options().hosts, " hosts of ", cluster.options().devices_per_host,
                     " devices, ", count, " clients\n");
  for (const auto& [fault, at_ns] : faults.happened()) {
    report.scene += to_string(fault) + "\n";
    report.faults.insert(fault.kind);
  }
  for (const auto& client : clients) {
    report.runs += client->runs;
    report.done += client->done;
    report.problems.insert(report.problems.end(), client->problems.begin(), client->problems.end());
    if (client->error) report.errors.emplace_back(client->error->what());
    if (client->error) look_at_error(*client, faults.happened(), report.problems);
  }
  look_at_leaks(cluster, report.problems);
  look_at_executors(cluster, faults.happened(), report.problems);
  report.charged += static_cast<int>(cluster.options().charge_log->sums().size());
  report.meetings += static_cast<int>(
      std::ranges::count_if(cluster.options().order_log->steps(), &OrderedStep::in_order));
  const std::vector<std::string> wrong = wrong_charges(*cluster.options().charge_log);
  report.problems.insert(report.problems.end(), wrong.begin(), wrong.end());
  look_at_order(*cluster.options().order_log, faults.happened(), report.problems);
}

}  // namespace

void require_machine(const std::string& error) {
  for (const char* lack :
       {"shared memory: can't map", "shared memory: no room", "shared memory: no memory file",
        "fiber: no memory for its stack", "simulated memory: no ", "Too many open files"}) {
    if (error.find(lack) != std::string::npos)
      throw Error(ErrorKind::kOverloaded, cat("chaos: this machine is too small: ", error));
  }
}

std::vector<std::string> wrong_charges(const ChargeLog& log) {
  std::vector<std::string> problems;
  for (const auto& [program, sums] : log.sums()) {
    if (sums.charged_ns == sums.took_ns) continue;
    problems.push_back(cat("client ", program, " was charged ", sums.charged_ns,
                           " ns for turns that took ", sums.took_ns, " ns"));
  }
  return problems;
}

ChaosReport chaos(uint64_t seed, const NewMeddler& meddler, ChaosScene scene) {
  ChaosReport report;
  std::optional<FrameMeddler> between;  // Outlives the cluster.
  if (meddler != nullptr) between.emplace(meddler());
  const auto reactor = Reactor::make_simulated({.seed = seed, .time_limit_ns = kTimeLimitNs});
  reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
  };
  try {
    reactor->run([&] {
      const size_t before = reactor->live_fibers();
      run_on(*reactor, seed, between ? &*between : nullptr, scene, report);
      if (reactor->live_fibers() != before)
        report.problems.push_back(cat("fibers go on:\n", reactor->describe_fibers()));
    });
  } catch (const Error& error) {
    report.problems.push_back(error.what());
  }
  for (const std::string& error : report.errors) require_machine(error);
  for (const std::string& problem : report.problems) require_machine(problem);
  return report;
}

}  // namespace gangway
