// Programs that cross one another on shared devices: eight clients, half of
// which go from the first island to the second and back, and half the other way
// round, meeting in an all-reduce on each, over devices that a collective holds
// until all members came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kClients = 8, kHops = 4;

// The sum over all rows of x, mixed with what the hop before told.
std::shared_ptr<const Function> hop(const Mesh& mesh, int64_t microseconds, bool first) {
  const int64_t devices = mesh.devices();
  Builder b(first ? "first" : "later", mesh);
  Value x = timed(b.parameter("x", f32({devices, 8}), {{"data", shard(0)}}), microseconds);
  Value told = mean(sum(x, {0}));
  if (!first) told = (told + b.parameter("before", f32())) * 0.5;
  b.result("told", told);
  return std::make_shared<Function>(b.build());
}

// Over two slices in turn.
Program crossing(int64_t devices, int64_t microseconds) {
  const Mesh mesh{{{"data", devices}}};
  ProgramBuilder b("crossing", mesh);
  const uint32_t second = b.slice("second", mesh);
  const ProgramValue x[2] = {b.input_on(0, "x0", f32({devices, 8}), {{"data", shard(0)}}),
                             b.input_on(second, "x1", f32({devices, 8}), {{"data", shard(0)}})};
  const auto first = hop(mesh, microseconds, true), later = hop(mesh, microseconds, false);
  ProgramValue told;
  for (uint32_t h = 0; h < kHops; ++h) {
    std::vector<ProgramValue> arguments = {x[h % 2]};
    if (h > 0) arguments.push_back(b.transfer(told, h % 2));
    told = b.call(h % 2, cat("hop", h), h == 0 ? first : later, arguments)[0];
  }
  b.output_of("told", told);
  return b.build();
}

struct Crossing {
  int done = 0;
  std::vector<std::string> errors;
  std::string broken;              // The order, by what the devices wrote down.
  std::vector<std::string> stuck;  // What the controller says of its hosts at the end.
};

// Of each client so many runs, at most four in flight.
void cross(SimCluster& cluster, int number, int runs, int64_t time_limit_ms, Crossing& all) {
  Client client = cluster.connect(cat("client-", number));
  const int64_t devices = number % 4 < 2 ? 4 : 2;
  const Slice one = client.allocate({.devices = devices});
  const Slice two = client.allocate({.devices = devices});
  const bool forth = number % 2 == 0;
  const Executable program = (forth ? one : two)
                                 .compile(crossing(devices, 20 + 7 * number), {forth ? two : one},
                                          {.runs_in_flight_max = 4});
  const HostTensor ones = HostTensor::of<float>(
      {devices, 8}, std::vector<float>(static_cast<size_t>(devices) * 8, 1.0f));
  const Array x[2] = {(forth ? one : two).from_host(ones), (forth ? two : one).from_host(ones)};
  std::deque<gangway::Run> under_way;
  const auto finish = [&] {
    try {
      EXPECT_EQ(under_way.front()["told"].item<float>(), devices);
      ++all.done;
    } catch (const Error& error) {
      all.errors.emplace_back(error.what());
    }
    under_way.pop_front();
  };
  for (int run = 0; run < runs && all.errors.empty(); ++run) {
    under_way.push_back(
        program.run({{"x0", x[0]}, {"x1", x[1]}}, {.time_limit_ms = time_limit_ms}));
    if (under_way.size() == 4) finish();
  }
  while (!under_way.empty()) finish();
  for (const HostStatus& host : client.status().hosts)
    all.stuck.insert(all.stuck.end(), host.stuck.begin(), host.stuck.end());
  under_way.clear();
  client.close();
}

struct Scene {
  int runs = 0;
  std::string policy = "fair";
  bool order_collectives = true;
  int64_t time_limit_ms = 0;  // Of a run.
};

Crossing cross_all(const Scene& scene) {
  const auto reactor =
      Reactor::make_simulated({.seed = testing::test_seed(), .time_limit_ns = 600 * kSecond});
  const auto log = std::make_shared<OrderLog>();
  Crossing all;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 4,
                                  .devices_per_host = 2,
                                  .islands = 2,
                                  .policy = scene.policy,
                                  .order_log = log,
                                  .order_collectives = scene.order_collectives});
    std::vector<Fiber> fibers;
    for (int number = 0; number < kClients; ++number) {
      fibers.push_back(reactor->spawn(cat("client ", number), [&, number] {
        cross(cluster, number, scene.runs, scene.time_limit_ms, all);
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
  });
  all.broken = broken_order(*log);
  return all;
}

class DeadlockTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DeadlockTest, TenThousandCrossingGangLaunchesAllEndInTheOrderOfTickets) {
  constexpr int kRuns = 10'000 / (kClients * kHops) + 1;
  const Crossing all = cross_all({.runs = kRuns, .policy = GetParam()});
  EXPECT_EQ(all.done, kClients * kRuns);
  EXPECT_TRUE(all.errors.empty()) << all.errors.front();
  EXPECT_EQ(all.broken, "");
}

TEST_P(DeadlockTest, WithoutTheOrderTheSameProgramsWaitForOneAnotherForEverAndThatIsReported) {
  const Crossing all = cross_all(
      {.runs = 80, .policy = GetParam(), .order_collectives = false, .time_limit_ms = 30'000});
  ASSERT_FALSE(all.errors.empty());
  EXPECT_THAT(all.errors.front(), HasSubstr("limit of 30000 ms"));
  ASSERT_FALSE(all.stuck.empty());
  EXPECT_THAT(all.stuck.front(), HasSubstr("is stuck in"));
  EXPECT_THAT(all.stuck.front(), HasSubstr("deadlock_test.cc:"));
}

INSTANTIATE_TEST_SUITE_P(Policies, DeadlockTest, ::testing::Values("fifo", "fair", "priority"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gangway
