#include "executor/host/stuck_watch.h"

#include <gmock/gmock.h>

#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway::stuck_watch_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr PlanId kPlan{1};

// Two simulated hosts of one device each.
class StuckWatchTest : public testing::Test {
 protected:
  void install(std::shared_ptr<const Plan> plan) {
    t.install(kPlan, std::move(plan));
    t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  }
  // Lets virtual time pass; the hosts look every kLookMs.
  void pass(int64_t ms) {
    reactor->run([&] {
      for (const int64_t end_ms = now_ms_ + ms; now_ms_ < end_ms; now_ms_ += StuckWatch::kLookMs) {
        WaitQueue().wait_until_ns("for the next look", start_ns_ + now_ms_ * 1'000'000);
        for (auto& host : t.hosts) changes_ += host->look_for_stuck() ? 1 : 0;
      }
    });
  }
  const std::vector<StuckDevice>& stuck(size_t host) { return t.hosts[host]->stuck(); }

  const std::unique_ptr<Reactor> reactor = Reactor::make_simulated();
  TestHosts t{*reactor, 2, 1, DeviceKind::kSim};
  int changes_ = 0;

 private:
  const int64_t start_ns_ = reactor->clock().now_ns();
  int64_t now_ms_ = 0;
};

TEST_F(StuckWatchTest, ADeviceWhosePeerDoesNotComeIsNamedWithItsOperationAndTheUsersLine) {
  install(training_step(2, 1));
  t.start_on(0, step_request(kPlan, 1));
  pass(800);
  EXPECT_THAT(stuck(0), IsEmpty());
  pass(800);
  ASSERT_EQ(stuck(0).size(), 1u);
  const StuckDevice one = stuck(0)[0];
  EXPECT_EQ(one.device, 0u);
  EXPECT_EQ(one.run, RunId(1));
  EXPECT_THAT(one.what, HasSubstr("all_reduce of f32"));
  EXPECT_THAT(one.at, HasSubstr("training_step.h:"));
  EXPECT_GT(one.ms, 1000);
  EXPECT_TRUE(one.waits);
  EXPECT_THAT(stuck(1), IsEmpty()) << "it was asked nothing";
  EXPECT_THAT(t.hosts[0]->describe_work(), HasSubstr("waits for other devices in all_reduce"));
  t.start_on(1, step_request(kPlan, 1));
  pass(400);
  EXPECT_THAT(stuck(0), IsEmpty());
  EXPECT_EQ(changes_, 2);
  EXPECT_FALSE(t.wait(RunId(1)).error);
}

TEST_F(StuckWatchTest, WorkThatTookThreeSecondsOnceMayTakeFiveTimesAsLong) {
  install(training_step(2, 1));
  t.start_on(0, step_request(kPlan, 1));
  pass(3000);
  t.start_on(1, step_request(kPlan, 1));
  pass(400);
  t.start_on(0, step_request(kPlan, 2));
  pass(14'000);
  EXPECT_THAT(stuck(0), IsEmpty());
  pass(5000);
  EXPECT_EQ(stuck(0).size(), 1u);
  t.start_on(1, step_request(kPlan, 2));
  EXPECT_FALSE(t.wait(RunId(2)).error);
}

// A plan of one call that takes `us` microseconds.
std::shared_ptr<const Plan> plan_of(int64_t us) {
  TestPlan plan("slow", 2, 1);
  Builder b("slow", plan.mesh());
  b.result("y", timed(b.parameter("x", f32({8, 2}), {{"data", shard(0)}}), us) * 2.0);
  const uint32_t x = plan.input("x", f32({8, 2}), {shard(0)});
  plan.call("slow", plan.function(b.build()), {x}, {plan.output("y", f32({8, 2}), {shard(0)})});
  return plan.share();
}

RunFrame run_of(PlanId plan, uint64_t run) {
  return {.plan = plan,
          .run = RunId(run),
          .arguments = {{0, ArrayId(100), {}}},
          .outputs = {ArrayId(1000 + run)}};
}

TEST_F(StuckWatchTest, WorkThatNeverRanMayTakeTwentyTimesItsModelledTime) {
  install(plan_of(3'000'000));
  for (uint64_t run = 1; run <= 2; ++run) {
    t.start(run_of(kPlan, run));
    pass(4000);
    EXPECT_FALSE(t.wait(RunId(run)).error);
  }
  EXPECT_EQ(changes_, 0);
}

// The new plan may lie in memory where the old one lay.
TEST_F(StuckWatchTest, TimesOfAnEarlierPlanDoNotCountForOneInstalledInItsPlace) {
  install(plan_of(1000));
  for (uint64_t run = 1; run <= 2; ++run) {
    t.start(run_of(kPlan, run));
    pass(400);
    EXPECT_FALSE(t.wait(RunId(run)).error);
  }
  for (auto& host : t.hosts) host->uninstall(kPlan);
  const PlanId next(kPlan.value + 1);
  t.install(next, plan_of(3'000'000));
  t.start(run_of(next, 3));
  pass(4000);
  EXPECT_FALSE(t.wait(RunId(3)).error);
  EXPECT_EQ(changes_, 0);
}

TEST_F(StuckWatchTest, ARunThatWaitsForItsTicketsIsNotStuck) {
  install(training_step(2, 1));
  t.hosts[0]->prepare({0, step_request(kPlan, 1)});
  pass(10'000);
  EXPECT_THAT(stuck(0), IsEmpty());
  EXPECT_THAT(t.hosts[0]->describe_work(), HasSubstr("run 1 of \"step\" waits for its tickets"));
}

TEST_F(StuckWatchTest, TimeInWhichTheExecutorStoodStillDoesNotCount) {
  install(training_step(2, 1));
  t.start_on(0, step_request(kPlan, 1));
  pass(400);
  reactor->run([&] {
    WaitQueue().wait_until_ns("while nobody looks", reactor->clock().now_ns() + 60'000'000'000);
  });
  t.hosts[0]->look_for_stuck();
  EXPECT_THAT(stuck(0), IsEmpty());
  t.start_on(1, step_request(kPlan, 1));
  EXPECT_FALSE(t.wait(RunId(1)).error);
}

}  // namespace
}  // namespace gangway::stuck_watch_test
