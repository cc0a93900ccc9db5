// Programs that share devices get device time by their weights: over the production objects, in
// virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/seed.h"

namespace gangway::shares_test {
namespace {

constexpr int64_t kDevices = 4;
constexpr int64_t kQuantumNs = 2 * kMillisecond;  // If grants cost the controller no time.

// The steps of a program: each is `pieces` of `piece_us` and an all-reduce.
struct Steps {
  double weight = 1;
  int pieces = 1;
  int64_t piece_us = 200;
  size_t ahead = 4;  // Steps enqueued at once; 1: it waits for each.
  int32_t priority = 0;
  int64_t from_ns = 0;  // Time from the cluster's start until the program connects.
};

Program program_of(const std::string& name, const Steps& steps) {
  const Mesh mesh{{{"data", kDevices}}};
  Builder f("step", mesh);
  Value x = f.parameter("x", f32({kDevices, 8}), {{"data", shard(0)}});
  for (int piece = 0; piece < steps.pieces; ++piece) x = timed(x, steps.piece_us);
  f.result("y", sum(x));
  ProgramBuilder b(name, mesh);
  const ProgramValue in = b.input_on(0, "x", f32({kDevices, 8}), {{"data", shard(0)}});
  b.output_of("y", b.call(0, "step", std::make_shared<Function>(f.build()), {in})[0]);
  return b.build();
}

// Runs steps one after another until `until_ns`.
void train(SimCluster& cluster, const std::string& name, const Steps& steps, Reactor& reactor,
           int64_t until_ns) {
  Client client = cluster.connect(name);
  client.set_share(steps.weight, steps.priority);
  {
    const Slice slice = client.allocate({.devices = kDevices});
    const Executable program =
        slice.compile(program_of(name, steps), CompileOptions{.runs_in_flight_max = 4});
    const Array x = slice.from_host(HostTensor(f32({kDevices, 8})));
    std::deque<gangway::Run> under_way;
    while (reactor.clock().now_ns() < until_ns) {
      under_way.push_back(program.run({{"x", x}}));
      if (under_way.size() < steps.ahead) continue;
      under_way.front().wait();
      under_way.pop_front();
    }
    for (const gangway::Run& run : under_way) run.wait();
  }
  client.close();
}

struct SharingOptions {
  int64_t for_ns = 6 * kSecond;
  double model = 1;  // The cost model's time of a piece, over its real time.
  std::string policy = "fair";
};

struct Shared {
  // Each program's reported part of its devices' time in the last second.
  std::map<std::string, double> used;
  std::map<std::string, int64_t> took_ns;  // Time of each program's turns, by the log of charges.
  std::vector<BusySpan> busy;              // Spans of all devices.
  int64_t end_ns = 0;
};

Shared share_devices(const std::vector<Steps>& programs, const SharingOptions& options = {}) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  Shared shared;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2,
                                  .devices_per_host = 2,
                                  .timed_only = true,
                                  .policy = options.policy,
                                  .busy = &shared.busy,
                                  .charge_log = std::make_shared<ChargeLog>()});
    for (const int host : {0, 1}) cluster.slow_down(host, 1 / options.model);
    const int64_t begin_ns = reactor->clock().now_ns();
    shared.end_ns = begin_ns + options.for_ns;
    std::vector<Fiber> fibers;
    for (size_t i = 0; i < programs.size(); ++i) {
      fibers.push_back(reactor->spawn(cat("program ", i), [&, i] {
        Steps steps = programs[i];
        steps.piece_us = std::llround(static_cast<double>(steps.piece_us) * options.model);
        WaitQueue().wait_until_ns("for its time", begin_ns + steps.from_ns);
        train(cluster, cat("program ", i), steps, *reactor, shared.end_ns + kMillisecond);
      }));
    }
    WaitQueue().wait_until_ns("for the shares to show", shared.end_ns);
    const auto& charges = cluster.options().charge_log->sums();
    for (const ProgramCounts& program : cluster.controller.controller().program_counts()) {
      if (const auto sums = charges.find(program.id); sums != charges.end())
        shared.took_ns[program.name] = sums->second.took_ns;
    }
    const Client looker = cluster.connect("looker");
    for (const ProgramStatus& program : looker.status().programs)
      shared.used[program.name] = program.used;
    looker.close();
    for (Fiber& fiber : fibers) fiber.join();
  });
  std::erase_if(shared.busy,
                [&](const BusySpan& span) { return span.end_ns <= shared.end_ns - 5 * kSecond; });
  return shared;
}

// The spans in which one device was busy with one program.
class BusyTime {
 public:
  BusyTime(const Shared& shared, const std::string& device, const std::string& program) {
    for (const BusySpan& span : shared.busy) {
      if (span.device != device || span.program != program) continue;
      spans_.push_back({span.begin_ns, span.end_ns, before_ns_});
      before_ns_ += span.end_ns - span.begin_ns;
    }
  }
  int64_t in(int64_t from_ns, int64_t for_ns) const {
    return before(from_ns + for_ns) - before(from_ns);
  }

 private:
  struct Span {
    int64_t begin_ns = 0, end_ns = 0, before_ns = 0;
  };
  int64_t before(int64_t at_ns) const {
    const auto later = std::ranges::upper_bound(spans_, at_ns, {}, &Span::begin_ns);
    if (later == spans_.begin()) return 0;
    const Span& span = *std::prev(later);
    return span.before_ns + std::min(at_ns, span.end_ns) - span.begin_ns;
  }

  std::vector<Span> spans_;
  int64_t before_ns_ = 0;
};

constexpr const char* kDeviceNames[] = {"host-0/0", "host-0/1", "host-1/0", "host-1/1"};

// Expects the program's part of each device's last second to be within half a percentage point.
void expect_share_of_last_second(const Shared& shared, const std::string& program, double part) {
  for (const char* device : kDeviceNames) {
    const int64_t busy_ns = BusyTime(shared, device, program).in(shared.end_ns - kSecond, kSecond);
    EXPECT_NEAR(static_cast<double>(busy_ns) / kSecond, part, 0.005) << program << " on " << device;
  }
}

// Expects the program's part of each device's time in any 50 ms after the first second to be within
// one quantum and one section, which fair queueing promises to programs that always have something
// to run.
void expect_share_in_every_window(const Shared& shared, const std::string& program, double part) {
  constexpr int64_t kWindowNs = 50 * kMillisecond, kSectionNs = kMillisecond;
  for (const char* device : kDeviceNames) {
    const BusyTime busy(shared, device, program);
    double most_off_ns = 0;
    for (int64_t at_ns = shared.end_ns - 5 * kSecond; at_ns + kWindowNs <= shared.end_ns;
         at_ns += kMillisecond / 10) {
      const double busy_ns = static_cast<double>(busy.in(at_ns, kWindowNs));
      most_off_ns = std::max(most_off_ns, std::abs(busy_ns - part * kWindowNs));
    }
    EXPECT_LE(most_off_ns, kQuantumNs + kSectionNs) << program << " on " << device;
  }
}

void expect_shares(const std::vector<Steps>& programs, double model = 1) {
  const Shared shared = share_devices(programs, {.model = model});
  double weights = 0, all = 0;
  for (const Steps& steps : programs) weights += steps.weight;
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string name = cat("program ", i);
    const double part = programs[i].weight / weights;
    EXPECT_NEAR(shared.used.at(name), part, 0.005) << name;
    expect_share_of_last_second(shared, name, part);
    expect_share_in_every_window(shared, name, part);
    all += shared.used.at(name);
  }
  EXPECT_GT(all, 0.99) << "the devices stand idle";
}

// Four programs with steps of 1 ms, 10 ms, 200 ms and 2 s.
std::vector<Steps> steps_of(const std::vector<double>& weights) {
  return {{weights[0], 5, 200},
          {weights[1], 50, 200},
          {weights[2], 400, 500},
          {weights[3], 2000, 1000}};
}

TEST(SharesTest, ProgramsOfEqualWeightGetEqualDeviceTimeWhateverTheirStepsTake) {
  expect_shares(steps_of({1, 1, 1, 1}));
}

// All within one second. A program that is alone at first is not charged for that.
TEST(SharesTest, TheUseThatTheControllerReportsIsTheTimeThatProgramsAreChargedFor) {
  const Shared shared = share_devices({{.weight = 1, .pieces = 5}, {.weight = 2, .pieces = 5}},
                                      {.for_ns = 700 * kMillisecond});
  for (const char* program : {"program 0", "program 1"}) {
    const double took = static_cast<double>(shared.took_ns.at(program)) / kSecond;
    EXPECT_GT(took, 0.1) << program;
    EXPECT_NEAR(shared.used.at(program), took, 0.03) << program;
  }
}

// The smallest busy part of the last second of any device, while `clients` clients run kernels of
// 0.33 ms and wait for each result.
double busy_with(size_t clients) {
  const Shared shared =
      share_devices(std::vector<Steps>(clients, {.pieces = 1, .piece_us = 330, .ahead = 1}),
                    {.for_ns = 1500 * kMillisecond});
  std::map<std::string, int64_t> busy_ns;
  for (const BusySpan& span : shared.busy)
    busy_ns[span.device] += std::max<int64_t>(
        0, std::min(span.end_ns, shared.end_ns) - std::max(span.begin_ns, shared.end_ns - kSecond));
  double least = 1;
  for (const auto& [device, ns] : busy_ns)
    least = std::min(least, static_cast<double>(ns) / kSecond);
  return busy_ns.size() == kDevices ? least : 0;
}

TEST(SharesTest, ClientsThatWaitForEachResultKeepTheDevicesBusyTogether) {
  EXPECT_LT(busy_with(1), 0.8) << "one alone leaves gaps, or this shows nothing";
  for (const size_t clients : {4, 8, 16}) EXPECT_GE(busy_with(clients), 0.99) << clients;
}

// Makes runs of a millisecond, one at a time, and returns when each was submitted.
std::vector<int64_t> run_urgently(SimCluster& cluster, Reactor& reactor) {
  std::vector<int64_t> submitted_ns;
  Client client = cluster.connect("urgent");
  client.set_share(1, 10);
  {
    const Slice slice = client.allocate({.devices = kDevices});
    const Executable program = slice.compile(program_of("urgent", {.pieces = 5, .piece_us = 200}));
    const Array x = slice.from_host(HostTensor(f32({kDevices, 8})));
    program.run({{"x", x}}).wait();  // Measures its sections.
    for (int i = 0; i < 100; ++i) {
      WaitQueue().wait_until_ns("between runs", reactor.clock().now_ns() + 17'300'000);
      submitted_ns.push_back(reactor.clock().now_ns());
      program.run({{"x", x}}).wait();
    }
  }
  client.close();
  return submitted_ns;
}

// Measures from a run's submission until it has begun on all devices, including messages, while
// programs run whose steps take 100 ms and more.
TEST(SharesTest, AnUrgentRunOfAMillisecondWaitsAtMostThreeBehindLongOnes) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  std::vector<BusySpan> busy;
  std::vector<int64_t> submitted_ns;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2,
                                  .devices_per_host = 2,
                                  .timed_only = true,
                                  .policy = "priority",
                                  .busy = &busy});
    const int64_t end_ns = reactor->clock().now_ns() + 4 * kSecond;
    std::vector<Fiber> fibers;
    for (const int pieces : {500, 2500}) {
      fibers.push_back(reactor->spawn(cat("long ", pieces), [&, pieces] {
        train(cluster, cat("long ", pieces), {.pieces = pieces, .piece_us = 200}, *reactor, end_ns);
      }));
    }
    submitted_ns = run_urgently(cluster, *reactor);
    EXPECT_LT(reactor->clock().now_ns(), end_ns) << "nothing ran beside it";
    for (Fiber& fiber : fibers) fiber.join();
  });
  std::map<std::string, std::vector<int64_t>> begins_ns;  // Begins of steps, by device.
  for (const BusySpan& span : busy) {
    if (span.program == "urgent") begins_ns[span.device].push_back(span.begin_ns);
  }
  ASSERT_EQ(begins_ns.size(), kDevices);
  int64_t longest_ns = 0;
  for (const auto& [device, begins] : begins_ns) {
    for (const int64_t at_ns : submitted_ns)
      longest_ns = std::max(longest_ns, *std::ranges::lower_bound(begins, at_ns) - at_ns);
  }
  EXPECT_LE(longest_ns, 3 * kMillisecond);
  EXPECT_GT(longest_ns, kMillisecond / 2) << "nothing was in its way";
}

TEST(SharesTest, UnderPriorityNobodyStarves) {
  const Shared shared = share_devices({{.pieces = 100}, {.pieces = 100, .priority = 5}},
                                      {.for_ns = 3 * kSecond, .policy = "priority"});
  const BusyTime low(shared, "host-0/0", "program 0"), high(shared, "host-0/0", "program 1");
  for (int64_t at_ns = shared.end_ns - 3 * kSecond; at_ns < shared.end_ns; at_ns += kSecond) {
    EXPECT_GT(low.in(at_ns, kSecond), 0);
    EXPECT_GT(high.in(at_ns, kSecond), kSecond / 2);
  }
}

TEST(SharesTest, ProgramsGetDeviceTimeByTheirWeights) {
  // The cost model is wrong by a factor of four; measured times correct it.
  expect_shares(steps_of({1, 2, 4, 8}), 0.25);
  expect_shares(steps_of({8, 4, 2, 1}), 4);
}

TEST(SharesTest, ANewcomerStartsWithoutCreditAndWithoutDebt) {
  // The last second begins after all that was granted while the first program was alone.
  const Shared shared = share_devices({{.pieces = 100}, {.pieces = 150, .from_ns = kSecond}},
                                      {.for_ns = 2200 * kMillisecond});
  for (const char* program : {"program 0", "program 1"})
    expect_share_of_last_second(shared, program, 0.5);
}

}  // namespace
}  // namespace gangway::shares_test
