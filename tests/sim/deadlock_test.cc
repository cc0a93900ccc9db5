// Programs that cross one another on two islands of simulated devices, which a collective blocks
// until all its members have arrived.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/scheduler/policies/policy.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/crossing.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

struct Scene {
  Crossing crossing;
  std::string policy = "fair";
  bool order_collectives = true;
};

struct Seen : Crossed {
  std::string broken;  // Violation of the order in the devices' logs.
};

Seen cross_all(const Scene& scene) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  const auto log = std::make_shared<OrderLog>();
  Seen all;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 4,
                                  .devices_per_host = 2,
                                  .islands = 2,
                                  .policy = scene.policy,
                                  .order_log = log,
                                  .order_collectives = scene.order_collectives});
    cross([&](const std::string& name) { return cluster.connect(name); }, scene.crossing, all);
  });
  all.broken = broken_order(*log);
  return all;
}

class DeadlockTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DeadlockTest, TenThousandCrossingGangLaunchesAllEndInTheOrderOfTickets) {
  constexpr int kRuns = crossing_runs(10'000);
  const Seen all = cross_all({.crossing = {.runs = kRuns}, .policy = GetParam()});
  EXPECT_EQ(all.done, kCrossingClients * kRuns);
  EXPECT_TRUE(all.errors.empty()) << all.errors.front();
  EXPECT_EQ(all.broken, "");
}

TEST_P(DeadlockTest, WithoutTheOrderTheSameProgramsWaitForOneAnotherForEverAndThatIsReported) {
  const Seen all = cross_all({.crossing = {.runs = 80, .time_limit_ms = 30'000},
                              .policy = GetParam(),
                              .order_collectives = false});
  ASSERT_FALSE(all.errors.empty());
  EXPECT_THAT(all.errors.front(), HasSubstr("limit of 30000 ms"));
  ASSERT_FALSE(all.stuck.empty());
  EXPECT_THAT(all.stuck.front(), HasSubstr("is stuck in"));
  EXPECT_THAT(all.stuck.front(), HasSubstr("crossing.cc:"));
  EXPECT_THAT(all.broken, HasSubstr("collectives: run "));
}

// The order is checked in all clusters of tests, also if the test does not ask for it.
TEST(OrderTest, WhereDevicesBreakTheOrderTheTestFails) {
  EXPECT_NONFATAL_FAILURE(
      {
        const auto reactor = Reactor::make_simulated();
        reactor->run([&] {
          SimCluster cluster(*reactor, {.hosts = 1});
          for (const uint64_t ticket : {2, 1})
            cluster.order_log().record({.device = "host-0/0", .plan = PlanId(1), .ticket = ticket});
        });
      },
      "ticket 1 came after run 0 node 0 ticket 2");
}

INSTANTIATE_TEST_SUITE_P(Policies, DeadlockTest, ::testing::ValuesIn(policy_names()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gangway
