// Programs that cross one another on two islands of emulated cards, whose communication streams a
// collective holds until all its members came. Built twice: with GW_CROSSINGS gang launches that
// take seconds, and with as many as on simulated devices (tests/sim/deadlock_test.cc).
#include <gtest/gtest.h>

#include "controller/scheduler/policies/policy.h"
#include "tests/cuda/hosts/crossing_cards.h"

namespace gangway {
namespace {

class CudaDeadlock : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaDeadlock, CrossingGangLaunchesAllEndInTheOrderOfTickets) {
  constexpr int kRuns = crossing_runs(GW_CROSSINGS);
  const CrossedCards all = cross_cards({.runs = kRuns, .policy = GetParam()});
  EXPECT_EQ(all.done, kCrossingClients * kRuns);
  EXPECT_TRUE(all.errors.empty()) << all.errors.front();
  EXPECT_EQ(all.broken, "");
  EXPECT_GE(all.meetings, kRuns) << "the devices' logs lack collectives";
  EXPECT_EQ(all.reports, "");
}

INSTANTIATE_TEST_SUITE_P(Policies, CudaDeadlock, ::testing::ValuesIn(policy_names()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gangway
