#include "tests/sim/chaos.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "gangway.h"
#include "sim/faults.h"
#include "sim/sim_cluster.h"
#include "tests/support/order_check.h"

namespace gangway {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kHostTimeoutMs = 4000;
constexpr int64_t kHeartbeatMs = 400;
constexpr int64_t kTimeLimitNs = 600'000 * kMillisecond;
constexpr int kActions = 25;  // Of each client.

// One call: x, whose sum over all devices is 1, is added to the state "count", which is told. What
// the call before told is the same number, and is mixed in.
std::shared_ptr<const Function> counting(const std::string& name, const Mesh& mesh,
                                         int64_t microseconds, bool first) {
  Builder b(name, mesh);
  Value count = b.parameter("count", f32({8}));
  Value x = b.parameter("x", f32({mesh.devices(), 8}), {{"data", shard(0)}});
  Value next = count + timed(sum(x, {0}), microseconds);
  Value told = mean(next);
  if (!first) told = (told + b.parameter("before", f32())) * 0.5;
  b.result("next", next);
  b.result("told", told);
  return std::make_shared<Function>(b.build());
}

// On one slice, or on two, with a transfer from the first to the second.
Program counting_program(int64_t devices, int slices, int64_t microseconds) {
  const Mesh mesh{{{"data", devices}}};
  ProgramBuilder b("count", mesh);
  std::vector<ProgramValue> told;
  for (int s = 0; s < slices; ++s) {
    const uint32_t slice = s == 0 ? 0 : b.slice("second", mesh);
    const ProgramValue count = b.state_on(slice, cat("count", s), zeros(f32({8})));
    std::vector<ProgramValue> arguments = {
        count, b.input_on(slice, cat("x", s), f32({devices, 8}), {{"data", shard(0)}})};
    if (s > 0) arguments.push_back(b.transfer(told.back(), slice));
    const auto results =
        b.call(slice, cat("step", s), counting(cat("step", s), mesh, microseconds, s == 0),
               arguments, {{0, count.edge.node}});
    told.push_back(results[1]);
  }
  for (size_t s = 0; s < told.size(); ++s) b.output_of(cat("told", s), told[s]);
  return b.build();
}

HostTensor parts_of_one(int64_t devices) {
  const auto part = 1.0f / static_cast<float>(devices);
  return HostTensor::of<float>({devices, 8},
                               std::vector<float>(static_cast<size_t>(devices) * 8, part));
}

class ChaosClient {
 public:
  ChaosClient(Reactor& reactor, SimCluster& cluster, Rng rng, int number)
      : reactor_(reactor), cluster_(cluster), rng_(rng), name_(cat("client-", number)) {}

  int runs = 0, done = 0;
  std::optional<Error> error;  // The first that was not of its own making.
  int64_t error_at_ns = 0;
  std::vector<std::string> problems;

  void live() {
    std::optional<Client> client;
    try {
      client.emplace(cluster_.connect(name_));
      work(*client);
    } catch (const Error& why) {
      met(why);
    }
    last_.clear();
    if (client) client->close();
  }

 private:
  void work(const Client& client) {
    const auto all = static_cast<uint64_t>(cluster_.options().hosts) *
                     static_cast<uint64_t>(cluster_.options().devices_per_host);
    slices_ = 1 + static_cast<int>(rng_.below(2));
    const auto devices =
        static_cast<int64_t>(rng_.chance(0.5) ? all : std::max<uint64_t>(all / 2, 1));
    std::vector<Slice> slices;
    for (int s = 0; s < slices_; ++s) slices.push_back(client.allocate({.devices = devices}));
    const auto microseconds = static_cast<int64_t>(50 + rng_.below(1000));
    const Executable program =
        slices[0].compile(counting_program(devices, slices_, microseconds),
                          std::vector<Slice>(slices.begin() + 1, slices.end()),
                          {.runs_in_flight_max = 1 + static_cast<int64_t>(rng_.below(4))});
    x_ = parts_of_one(devices);
    array_ = slices[0].from_host(x_);
    for (int i = 0; i < kActions && !error && !died_; ++i) act(program, slices[0]);
    while (!last_.empty()) wait_for_oldest();
    array_ = {};
  }

  void act(const Executable& program, const Slice& slice) {
    const uint64_t draw = rng_.below(100);
    if (draw < 10 && !last_.empty()) return wait_for_oldest();
    if (draw < 18 && !last_.empty()) return last_.back().cancel();
    if (draw < 24) return read_state(slice);
    if (draw == 99) return die();
    std::vector<Argument> arguments;
    for (int s = 0; s < slices_; ++s)
      arguments.push_back(draw < 40 ? Argument{cat("x", s), x_} : Argument{cat("x", s), array_});
    ++runs;
    last_.push_back(program.run(arguments, {.time_limit_ms = draw < 48 ? 1 : 0}));
  }

  // As when its process is killed.
  void die() {
    died_ = true;
    cluster_.network.break_connections(name_);
  }

  void wait_for_oldest() {
    const Run run = last_.front();
    last_.pop_front();
    try {
      run.wait();
      ++done;
      for (int s = 0; s < slices_; ++s)
        expect_count(run[cat("told", s)].item<float>(), cat("output told", s));
    } catch (const Error& why) {
      if (why.kind() != ErrorKind::kCancelled) met(why);
    }
  }

  // Behind all runs so far.
  void read_state(const Slice& slice) {
    while (!last_.empty()) wait_for_oldest();
    if (error) return;
    try {
      expect_count(slice.read_state("count0").as<float>()[7], "state count0");
    } catch (const Error& why) {
      met(why);
    }
  }

  void expect_count(float got, const std::string& what) {
    if (error || died_ || got == static_cast<float>(done)) return;
    problems.push_back(cat(name_, ": ", what, ": expected ", done, ", got ", got));
  }

  void met(const Error& why) {
    if (error || died_) return;
    error = why;
    error_at_ns = reactor_.clock().now_ns();
  }

  Reactor& reactor_;
  SimCluster& cluster_;
  Rng rng_;
  const std::string name_;
  int slices_ = 1;
  bool died_ = false;
  HostTensor x_;
  Array array_;
  std::deque<Run> last_;
};

using Clients = std::vector<std::unique_ptr<ChaosClient>>;

// A host's failure is met within its time; nothing else is met without a fault that explains it.
void look_at_errors(const Clients& clients, const std::vector<FaultInjector::Happened>& faults,
                    std::vector<std::string>& problems) {
  const int64_t timeout_ns = kHostTimeoutMs * kMillisecond;
  int64_t bound_ns = timeout_ns + timeout_ns / 4 + (kHeartbeatMs + 600) * kMillisecond;
  for (const auto& [fault, at_ns] : faults) {
    if (fault.kind == FaultKind::kStopController) bound_ns += fault.for_ns;
  }
  for (const auto& client : clients) {
    if (!client->error) continue;
    const std::string text = client->error->what();
    const bool explained =
        std::any_of(faults.begin(), faults.end(), [&](const FaultInjector::Happened& happened) {
          return may_fail_runs(happened.fault, timeout_ns) && happened.at_ns <= client->error_at_ns;
        });
    if (!explained) problems.push_back(cat("no fault explains: ", text));
    const bool silent = std::any_of(faults.begin(), faults.end(), [&](const auto& happened) {
      return ends_host(happened.fault, timeout_ns) &&
             client->error_at_ns <= happened.at_ns + bound_ns;
    });
    const bool ends = std::any_of(faults.begin(), faults.end(), [&](const auto& happened) {
      return ends_host(happened.fault, timeout_ns);
    });
    if (ends && !silent) problems.push_back(cat("named too late: ", text));
  }
}

void look_at_leaks(SimCluster& cluster, std::vector<std::string>& problems) {
  const ControllerCounts left = cluster.controller.controller().counts();
  if (left.clients + left.slices + left.plans + left.arrays + left.runs + left.copies > 0) {
    problems.push_back(cat("the controller still counts ", left.clients, " clients, ", left.slices,
                           " slices, ", left.plans, " plans, ", left.arrays, " arrays, ", left.runs,
                           " runs and ", left.copies, " copies"));
  }
  for (const auto& executor : cluster.executors) {
    if (executor == nullptr || executor->disconnected().ready()) continue;
    for (int d = 0; d < cluster.options().devices_per_host; ++d) {
      const int64_t bytes = executor->host().bytes_in_use(static_cast<uint32_t>(d));
      if (bytes > 0) problems.push_back(cat(executor->name(), " still holds ", bytes, " bytes"));
    }
  }
}

SimClusterOptions draw_cluster(Rng& rng) {
  const int hosts = 1 << (1 + rng.below(3));
  return {.hosts = hosts,
          .devices_per_host = 1 << rng.below(2),
          .islands = rng.chance(0.5) ? 1 : 2,
          .heartbeat_interval_ms = kHeartbeatMs,
          .host_timeout_ms = kHostTimeoutMs,
          .time = rng.chance(0.5) ? ProcessTime::kFree : ProcessTime::kModelled,
          .order_log = std::make_shared<OrderLog>()};
}

void run_on(Reactor& reactor, uint64_t seed, const PlantedFrameBugs& planted, ChaosReport& report) {
  Rng rng(seed, 0xC4A05);
  SimClusterOptions drawn = draw_cluster(rng);
  // Less than what any stream carries in all, so acknowledgements must come.
  drawn.frames = {.queued_bytes_max = 16 << 10, .planted = planted};
  SimCluster cluster(reactor, drawn);
  FaultInjector faults(reactor, cluster,
                       draw_faults(seed, {.hosts = cluster.options().hosts,
                                          .within_ns = 20 * kMillisecond,
                                          .host_timeout_ns = kHostTimeoutMs * kMillisecond}));
  Clients clients;
  std::vector<Fiber> fibers;
  const auto count = static_cast<int>(1 + rng.below(3));
  for (int i = 0; i < count; ++i) {
    ChaosClient& client = *clients.emplace_back(
        std::make_unique<ChaosClient>(reactor, cluster, rng.fork(static_cast<uint64_t>(i)), i));
    fibers.push_back(reactor.spawn("client", [&client] { client.live(); }));
  }
  for (Fiber& fiber : fibers) fiber.join();
  report.replay_hash = cluster.replay_hash();
  faults.finish();
  WaitQueue().wait_until_ns("for what clients held to be freed",
                            reactor.clock().now_ns() + 3 * kHostTimeoutMs * kMillisecond);
  report.scene = cat(cluster.options().hosts, " hosts of ", cluster.options().devices_per_host,
                     " devices, ", count, " clients\n");
  for (const auto& [fault, at_ns] : faults.happened()) report.scene += to_string(fault) + "\n";
  for (const auto& client : clients) {
    report.runs += client->runs;
    report.done += client->done;
    report.problems.insert(report.problems.end(), client->problems.begin(), client->problems.end());
  }
  look_at_errors(clients, faults.happened(), report.problems);
  look_at_leaks(cluster, report.problems);
  // Runs that lose a host stop on each device wherever it is.
  const bool whole =
      std::none_of(faults.happened().begin(), faults.happened().end(), [](const auto& happened) {
        return ends_host(happened.fault, kHostTimeoutMs * kMillisecond / 2);
      });
  const std::string broken = whole ? broken_order(*cluster.options().order_log) : std::string();
  if (!broken.empty()) report.problems.push_back("the order of tickets is broken: " + broken);
}

}  // namespace

ChaosReport chaos(uint64_t seed, const PlantedFrameBugs& planted) {
  ChaosReport report;
  const auto reactor = Reactor::make_simulated({.seed = seed, .time_limit_ns = kTimeLimitNs});
  reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
  };
  try {
    reactor->run([&] {
      const size_t before = reactor->live_fibers();
      run_on(*reactor, seed, planted, report);
      if (reactor->live_fibers() != before)
        report.problems.push_back(cat("fibers go on:\n", reactor->describe_fibers()));
    });
  } catch (const Error& error) {
    report.problems.push_back(error.what());
  }
  return report;
}

}  // namespace gangway
