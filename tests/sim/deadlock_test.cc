// Programs that cross one another on two islands of simulated devices, which a collective blocks
// until all its members have arrived.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/scheduler/policies/policy.h"
#include "sim/sim_cluster.h"
#include "tests/sim/meddling.h"
#include "tests/sim/sim_time.h"
#include "tests/support/crossing.h"
#include "tests/support/error_of.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// Time in which a run of each client ends, if nothing meddles.
constexpr int64_t kRunNs = 100 * kMillisecond;

struct Scene {
  int runs = 0;  // Each client sends so many.
  std::string policy = "fair";
  FrameMeddler* meddler = nullptr;
};

struct Seen : Crossed {
  std::string broken;    // Violation of the order in the devices' logs.
  std::string failed;    // Why the simulation ended early.
  int64_t meetings = 0;  // Steps in the logs that all devices of a run do in one order.
};

Seen cross_all(const Scene& scene) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = scene.runs * kRunNs});
  const auto log = std::make_shared<OrderLog>();
  Seen all;
  const auto play = [&] {
    SimCluster cluster(*reactor, {.hosts = 4,
                                  .devices_per_host = 2,
                                  .islands = 2,
                                  .policy = scene.policy,
                                  .order_log = log});
    if (scene.meddler != nullptr) scene.meddler->stand_in(cluster.network);
    cross([&](const std::string& name) { return cluster.connect(name); }, scene.runs, all);
  };
  try {
    reactor->run(play);
  } catch (const Error& error) {
    all.failed = error.what();
  }
  all.broken = broken_order(*log);
  all.meetings = std::ranges::count_if(log->steps(), &OrderedStep::in_order);
  return all;
}

class DeadlockTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DeadlockTest, TenThousandCrossingGangLaunchesAllEndInTheOrderOfTickets) {
  constexpr int kRuns = crossing_runs(10'000);
  const Seen all = cross_all({.runs = kRuns, .policy = GetParam()});
  EXPECT_EQ(all.done, kCrossingClients * kRuns);
  EXPECT_TRUE(all.errors.empty()) << all.errors.front();
  EXPECT_EQ(all.failed, "");
  EXPECT_EQ(all.broken, "");
  EXPECT_GE(all.meetings, kRuns) << "the devices' logs lack collectives";
}

// The programs do cross, and devices that took runs in different orders would wait for ever.
TEST(CrossedGrants, WhereOneHostTakesRunsInAnotherOrderTheSameProgramsWaitForOneAnother) {
  FrameMeddler meddler = crosses_grants("host-0");
  constexpr int kRuns = 1000;
  const Seen all = cross_all({.runs = kRuns, .meddler = &meddler});
  EXPECT_THAT(all.failed, ::testing::HasSubstr("passed its time limit"));
  EXPECT_LT(all.done, kCrossingClients * kRuns / 2) << "more than a last grant is missing";
  EXPECT_FALSE(all.errors.empty());
  EXPECT_THAT(all.errors, ::testing::Each(::testing::HasSubstr("cancelled while waiting")));
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
