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

// Steps one after another, four ahead, until the time has come.
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
      if (under_way.size() < 4) continue;
      under_way.front().wait();
      under_way.pop_front();
    }
    for (const gangway::Run& run : under_way) run.wait();
  }
  client.close();
}

// The part of the devices' time that each had over the second before the end.
std::map<std::string, double> shares_of(const std::vector<Steps>& programs) {
  const auto reactor =
      Reactor::make_simulated({.seed = testing::test_seed(), .time_limit_ns = 600 * kSecond});
  std::map<std::string, double> used;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 2, .timed_only = true});
    const int64_t end_ns = reactor->clock().now_ns() + 12 * kSecond;
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

TEST(SharesTest, ProgramsGetDeviceTimeByTheirWeights) { expect_shares(steps_of({1, 2, 4, 8})); }

}  // namespace
}  // namespace gangway
