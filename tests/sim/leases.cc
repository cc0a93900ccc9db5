#include "tests/sim/leases.h"

#include <deque>
#include <memory>

#include "gangway.h"
#include "runtime/fibers/fiber_group.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/order_check.h"

namespace gangway {
namespace {

constexpr int64_t kLeaseDevices = 4;
constexpr int64_t kLeaseColumns = 2048;  // Too many bytes to go with a run or its end.

// Adds one to a state, and outputs eight times its value.
Program counting() {
  const Mesh mesh{{{"data", kLeaseDevices}}};
  ProgramBuilder b("counting", mesh);
  const Value w = b.state("w", zeros(f32({8})));
  const Value x = b.input("x", f32({kLeaseDevices, 8}), {{"data", shard(0)}});
  const Value next = w + timed(sum(x, {0}), 2000);
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

Program doubling() {
  const Mesh mesh{{{"data", kLeaseDevices}}};
  ProgramBuilder b("doubling", mesh);
  const Value x = b.input("x", f32({kLeaseDevices, kLeaseColumns}), {{"data", shard(0)}});
  b.output("twice", x + x);
  return b.build();
}

HostTensor filled(int64_t columns, float value) {
  return HostTensor::of<float>(
      {kLeaseDevices, columns},
      std::vector<float>(static_cast<size_t>(kLeaseDevices * columns), value));
}

// A client that makes all calls of a client, and compares the results with the expected ones.
class Worker {
 public:
  Worker(SimCluster& cluster, Rng rng, int number, LeaseReport& report)
      : rng_(rng),
        report_(report),
        name_(SimCluster::client_name(number)),
        client_(cluster.connect(name_, {.on_warning = [this](const std::string& line) {
                                  const bool is_away =
                                      line.find("trying to attach again") != std::string::npos;
                                  is_away ? static_cast<void>(++report_.away) : problem(line);
                                }})) {}

  void work(const bool& is_over) {
    try {
      const Slice slice = client_.allocate({.devices = kLeaseDevices});
      const Executable step = slice.compile(counting(), CompileOptions{.runs_in_flight_max = 4});
      while (!is_over) act(slice, step);
      while (!open_.empty()) look_at_oldest();
    } catch (const Error& error) {
      problem(error.what());
    }
    open_.clear();
  }
  void close() { client_.close(); }

 private:
  void problem(const std::string& what) { report_.problems.push_back(cat(name_, ": ", what)); }

  void act(const Slice& slice, const Executable& step) {
    const uint64_t draw = rng_.below(100);
    if (draw < 4) return compile_another();
    if (draw < 8) return move_much(slice);
    if (draw < 16) return read(slice);
    if (draw < 18) return client_.set_share(1 + static_cast<double>(draw), 0);
    open_.push_back(step.run({{"x", filled(8, 1.0f / kLeaseDevices)}}));
    ++sent_;
    if (open_.size() >= 4) look_at_oldest();
  }

  void look_at_oldest() {
    const Run run = open_.front();
    open_.pop_front();
    ++seen_;
    ++report_.runs;
    expect(run["sum"].item<float>(), 8 * static_cast<float>(seen_), "sum");
  }

  void read(const Slice& slice) {
    expect(slice.read_state("w").as<float>()[3], static_cast<float>(sent_), "state w");
  }

  // Compiles on a slice of its own. Slice and plan are freed again at once, and the client does not
  // wait for the last run.
  void compile_another() {
    const Slice slice = client_.allocate({.devices = kLeaseDevices});
    const Executable step = slice.compile(counting());
    step.run({{"x", filled(8, 1.0f / kLeaseDevices)}});
    expect(step.run({{"x", filled(8, 1.0f / kLeaseDevices)}})["sum"].item<float>(), 16,
           "another sum");
  }

  // Moves a large tensor to the devices and back, through the shared segment.
  void move_much(const Slice& slice) {
    const auto value = static_cast<float>(rng_.below(1000));
    const Executable twice = slice.compile(doubling());
    const HostTensor told = twice.run({{"x", filled(kLeaseColumns, value)}})["twice"].to_host();
    expect(told.as<float>()[kLeaseColumns + 7], 2 * value, "twice");
  }

  void expect(float got, float expected, const char* what) {
    if (got != expected) problem(cat(what, ": expected ", expected, ", got ", got));
  }

  Rng rng_;
  LeaseReport& report_;
  const std::string name_;
  const Client client_;
  std::deque<Run> open_;
  int sent_ = 0, seen_ = 0;
};

int64_t bytes_in_use(const SimCluster& cluster) {
  int64_t bytes = 0;
  for (const auto& executor : cluster.executors) {
    for (int d = 0; d < cluster.options().devices_per_host; ++d)
      bytes += executor->host().bytes_in_use(static_cast<uint32_t>(d));
  }
  return bytes;
}

void look_at_leaks(SimCluster& cluster, LeaseReport& report) {
  const ControllerCounts left = cluster.controller.controller().counts();
  if (left.total() > 0 || bytes_in_use(cluster) > 0) {
    report.problems.push_back(cat("left are ", left.clients, " clients, ", left.slices, " slices, ",
                                  left.plans, " plans, ", left.arrays, " arrays, ", left.runs,
                                  " runs, ", left.transfers, " copies and ", bytes_in_use(cluster),
                                  " bytes of devices"));
  }
}

void cut_some(Reactor& reactor, SimCluster& cluster, Rng rng, int clients, int cuts) {
  for (int i = 0; i < cuts; ++i) {
    pass(reactor, static_cast<int64_t>(rng.below(40 * kMillisecond)));
    const std::string name =
        SimCluster::client_name(static_cast<int>(rng.below(static_cast<uint64_t>(clients))));
    const bool is_for_some_time = rng.chance(0.1);
    if (is_for_some_time) cluster.network.partition(name, SimCluster::kController);
    cluster.network.break_connections(name);
    if (!is_for_some_time) continue;
    pass(reactor, static_cast<int64_t>(rng.below(300 * kMillisecond)));
    cluster.network.heal(name, SimCluster::kController);
  }
}

void run_and_cut(Reactor& reactor, uint64_t seed, int cuts, LeaseReport& report) {
  constexpr int kClients = 3;
  Rng rng(seed, 0x1EA5E);
  const auto order_log = std::make_shared<OrderLog>();
  SimCluster cluster(
      reactor, {.devices_per_host = 4, .time = ProcessTime::kModelled, .order_log = order_log});
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kClients; ++i) {
    workers.push_back(
        std::make_unique<Worker>(cluster, rng.fork(static_cast<uint64_t>(i)), i, report));
  }
  bool is_over = false;
  int working = kClients;
  WaitQueue ended;
  FiberGroup fibers(reactor);  // They end before the data they use.
  for (const auto& worker : workers) {
    fibers.spawn("worker", [&] {
      worker->work(is_over);
      --working;
      ended.wake_all();
    });
  }
  cut_some(reactor, cluster, rng.fork(kClients), kClients, cuts);
  is_over = true;
  while (working > 0) ended.wait("for the workers to end");
  for (const ProgramCounts& program : cluster.controller.controller().program_counts()) {
    if (program.credits_used > 0)
      report.problems.push_back(cat(program.name, ": its credits are used for ever"));
  }
  for (const auto& worker : workers) worker->close();
  pass(reactor, 1000 * kMillisecond);
  look_at_leaks(cluster, report);
  const std::string broken = broken_order(*order_log, RunsAre::kWhole);
  if (!broken.empty()) report.problems.push_back("the order of tickets is broken: " + broken);
}

// Ways in which a client of the soak ends.
enum class End : uint8_t { kClose, kCloseInRuns, kCutAndClose, kCutOff };

void live_shortly(SimCluster& cluster, const std::string& name, End end, LeaseReport& report) {
  const auto be_silent = [](const std::string&) {};
  const Client client = cluster.connect(name, {.on_warning = be_silent});
  try {
    const Slice slice = client.allocate({.devices = kLeaseDevices});
    const Executable step = slice.compile(counting());
    const Array x = slice.from_host(filled(8, 1.0f / kLeaseDevices));
    const Run first = step.run({{"x", x}});
    const Run second = step.run({{"x", x}});
    if (end == End::kClose && second["sum"].item<float>() != 16)
      report.problems.push_back(cat(name, ": a wrong sum"));
    if (end == End::kCutAndClose) cluster.network.break_connections(name);
    if (end == End::kCutOff) cluster.cut_off_client(name);
    client.close();
    ++report.runs;
  } catch (const Error& error) {
    report.problems.push_back(cat(name, ": ", error.what()));
  }
  cluster.network.heal(name, SimCluster::kController);
}

void run_soak(Reactor& reactor, uint64_t seed, int clients, LeaseReport& report) {
  constexpr int kAtOnce = 4;
  constexpr int64_t kSoakLeaseMs = 500;
  Rng rng(seed, 0x50A4);
  SimCluster cluster(reactor, {.devices_per_host = 4, .lease_ms = kSoakLeaseMs});
  int begun = 0, living = kAtOnce;
  WaitQueue ended;
  FiberGroup fibers(reactor);
  for (int i = 0; i < kAtOnce; ++i) {
    fibers.spawn("clients", [&] {
      while (begun < clients) {
        const std::string name = cat("soak-", begun++);
        live_shortly(cluster, name, static_cast<End>(rng.below(4)), report);
      }
      --living;
      ended.wake_all();
    });
  }
  while (living > 0) ended.wait("for the last client");
  pass(reactor, (2 * kSoakLeaseMs + 1000) * kMillisecond);
  look_at_leaks(cluster, report);
}

template <class Body>
LeaseReport simulated(uint64_t seed, Body body) {
  LeaseReport report;
  const auto reactor = Reactor::make_simulated({.seed = seed});
  reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
  };
  reactor->run([&] {
    const size_t before = reactor->live_fibers();
    body(*reactor, report);
    if (reactor->live_fibers() != before)
      report.problems.push_back(cat("fibers go on:\n", reactor->describe_fibers()));
  });
  return report;
}

}  // namespace

LeaseReport cut_under_load(uint64_t seed, int cuts) {
  return simulated(seed, [&](Reactor& reactor, LeaseReport& report) {
    run_and_cut(reactor, seed, cuts, report);
  });
}

LeaseReport soak(uint64_t seed, int clients) {
  return simulated(seed, [&](Reactor& reactor, LeaseReport& report) {
    run_soak(reactor, seed, clients, report);
  });
}

}  // namespace gangway
