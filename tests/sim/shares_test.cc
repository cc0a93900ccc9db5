// Programs that share devices get device time by their weights: over the production objects, in
// virtual time.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr int64_t kDevices = 4;
constexpr int64_t kSecond = 1'000'000'000;

// One step of a program: so many pieces of so long each, and an all-reduce.
struct Steps {
  double weight = 1;
  int pieces = 1;
  int64_t piece_us = 200;
  size_t ahead = 4;  // Steps that it has enqueued; 1: it waits for each.
};

Program program_of(const Steps& steps) {
  const Mesh mesh{{{"data", kDevices}}};
  Builder f("step", mesh);
  Value x = f.parameter("x", f32({kDevices, 8}), {{"data", shard(0)}});
  for (int piece = 0; piece < steps.pieces; ++piece) x = timed(x, steps.piece_us);
  f.result("y", sum(x));
  ProgramBuilder b("steps", mesh);
  const ProgramValue in = b.input_on(0, "x", f32({kDevices, 8}), {{"data", shard(0)}});
  b.output_of("y", b.call(0, "step", std::make_shared<Function>(f.build()), {in})[0]);
  return b.build();
}

// Steps one after another, until the time has come.
void train(SimCluster& cluster, const std::string& name, const Steps& steps, Reactor& reactor,
           int64_t until_ns) {
  Client client = cluster.connect(name);
  client.set_share(steps.weight, 0);
  {
    const Slice slice = client.allocate({.devices = kDevices});
    const Executable program =
        slice.compile(program_of(steps), CompileOptions{.runs_in_flight_max = 4});
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

// The part of the devices' time that each had over the second before the end.
std::map<std::string, double> shares_of(const std::vector<Steps>& programs, int64_t seconds = 12) {
  const auto reactor =
      Reactor::make_simulated({.seed = testing::test_seed(), .time_limit_ns = 600 * kSecond});
  std::map<std::string, double> used;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 2, .timed_only = true});
    const int64_t end_ns = reactor->clock().now_ns() + seconds * kSecond;
    std::vector<Fiber> fibers;
    for (size_t i = 0; i < programs.size(); ++i) {
      fibers.push_back(reactor->spawn(cat("program ", i), [&, i] {
        train(cluster, cat("program ", i), programs[i], *reactor, end_ns + kSecond);
      }));
    }
    WaitQueue().wait_until_ns("for the shares to show", end_ns);
    const Client looker = cluster.connect("looker");
    for (const ProgramStatus& program : looker.status().programs) used[program.name] = program.used;
    looker.close();
    for (Fiber& fiber : fibers) fiber.join();
  });
  return used;
}

void expect_shares(const std::vector<Steps>& programs) {
  const std::map<std::string, double> used = shares_of(programs);
  double weights = 0, all = 0;
  for (const Steps& steps : programs) weights += steps.weight;
  for (size_t i = 0; i < programs.size(); ++i) {
    const double part = used.at(cat("program ", i));
    EXPECT_NEAR(part, programs[i].weight / weights, 0.005) << "program " << i;
    all += part;
  }
  EXPECT_GT(all, 0.99) << "the devices stand idle";
}

// Of 1 ms, 10 ms, 200 ms and 2 s.
std::vector<Steps> steps_of(const std::vector<double>& weights) {
  return {{weights[0], 5, 200},
          {weights[1], 50, 200},
          {weights[2], 400, 500},
          {weights[3], 2000, 1000}};
}

TEST(SharesTest, ProgramsOfEqualWeightGetEqualDeviceTimeWhateverTheirStepsTake) {
  expect_shares(steps_of({1, 1, 1, 1}));
}

// How busy the devices are with so many clients of 0.33 ms kernels that wait for each result.
double busy_with(size_t clients) {
  double busy = 0;
  const std::vector<Steps> programs(clients, {.pieces = 1, .piece_us = 330, .ahead = 1});
  for (const auto& [name, part] : shares_of(programs, 2)) busy += part;
  return busy;
}

TEST(SharesTest, ClientsThatWaitForEachResultKeepTheDevicesBusyTogether) {
  EXPECT_LT(busy_with(1), 0.8) << "one alone leaves gaps, or this shows nothing";
  for (const size_t clients : {4, 8, 16}) EXPECT_GT(busy_with(clients), 0.99) << clients;
}

// Beside programs whose steps take 100 ms and more.
TEST(SharesTest, AnUrgentRunOfAMillisecondWaitsAtMostThreeBehindLongOnes) {
  const auto reactor =
      Reactor::make_simulated({.seed = testing::test_seed(), .time_limit_ns = 600 * kSecond});
  int64_t slowest_ns = 0;
  reactor->run([&] {
    SimCluster cluster(
        *reactor, {.hosts = 2, .devices_per_host = 2, .timed_only = true, .policy = "priority"});
    const int64_t end_ns = reactor->clock().now_ns() + 4 * kSecond;
    std::vector<Fiber> fibers;
    for (int i = 0; i < 2; ++i) {
      fibers.push_back(reactor->spawn(cat("long ", i), [&, i] {
        train(cluster, cat("long ", i), {.pieces = 500, .piece_us = 200}, *reactor, end_ns);
      }));
    }
    Client urgent = cluster.connect("urgent");
    urgent.set_share(1, 10);
    {
      const Slice slice = urgent.allocate({.devices = kDevices});
      const Executable program = slice.compile(program_of({.pieces = 5, .piece_us = 200}));
      const Array x = slice.from_host(HostTensor(f32({kDevices, 8})));
      program.run({{"x", x}}).wait();  // Its sections are measured.
      for (int i = 0; i < 100; ++i) {
        WaitQueue().wait_until_ns("between runs", reactor->clock().now_ns() + 17'300'000);
        const int64_t begin_ns = reactor->clock().now_ns();
        program.run({{"x", x}}).wait();
        slowest_ns = std::max(slowest_ns, reactor->clock().now_ns() - begin_ns);
      }
    }
    urgent.close();
    for (Fiber& fiber : fibers) fiber.join();
  });
  // The run itself, and messages there and back.
  constexpr int64_t kRunNs = 1'000'000, kMessagesNs = 400'000;
  EXPECT_LE(slowest_ns, 3'000'000 + kRunNs + kMessagesNs);
  EXPECT_GT(slowest_ns, kRunNs);
}

TEST(SharesTest, ProgramsGetDeviceTimeByTheirWeights) { expect_shares(steps_of({1, 2, 4, 8})); }

}  // namespace
}  // namespace gangway
