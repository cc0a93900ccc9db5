// Programs that leave their devices for host memory and come back, on CPU and simulated devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/host/host.h"
#include "tests/support/error_of.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway::host_suspend_test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr PlanId kPlan{1};
const MoveRequest kToHost{.plans = {kPlan}, .scopes = {{1}}, .to_host = true};
const MoveRequest kToDevices{.plans = {kPlan}, .scopes = {{1}}, .to_host = false};

class HostSuspendTest : public testing::TestWithParam<DeviceKind> {
 protected:
  static std::vector<int64_t> move(TestHosts& t, const MoveRequest& request) {
    std::vector<int64_t> bytes;
    for (auto& host : t.hosts) bytes.push_back(host->move_states(request).take());
    return bytes;
  }
  // Runs one step to its end.
  static float step(TestHosts& t, uint64_t run) {
    t.start(step_request(kPlan, run, 0.25f));
    const Done done = t.wait(RunId(run));
    EXPECT_FALSE(done.error) << done.error->what();
    return t.item<float>(RunId(run), 0);
  }

  const std::unique_ptr<Reactor> reactor =
      GetParam() == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real();
};

TEST_P(HostSuspendTest, AProgramGivesItsDevicesBackAndGoesOnWhereItWas) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, training_step(2, 2));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  EXPECT_FLOAT_EQ(step(t, 1), 8.0f);
  const int64_t before = t.hosts[0]->bytes_in_use(1);
  const std::vector<ArrayId> loss{ArrayId(1001)};
  for (auto& host : t.hosts) host->free(loss);

  const std::vector<int64_t> bytes = move(t, kToHost);
  EXPECT_GT(bytes[0], 0);
  EXPECT_EQ(t.hosts[0]->host_bytes(), bytes[0]);
  // Only the array that was put is still there.
  const int64_t array = t.hosts[0]->bytes_in_use(1);
  EXPECT_LT(array, before);
  EXPECT_EQ(t.get<float>(ArrayId(100), 16), std::vector<float>(16, 3.0f));
  EXPECT_EQ(move(t, kToHost), bytes) << "it is there already";

  EXPECT_EQ(move(t, kToDevices)[0], 0);
  EXPECT_EQ(t.hosts[0]->host_bytes(), 0);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(2.0f));
  EXPECT_FLOAT_EQ(step(t, 2), 2.0f);
  EXPECT_FLOAT_EQ(step(t, 3), 0.5f);
  const std::vector<ArrayId> all{ArrayId(100), ArrayId(1002), ArrayId(1003)};
  for (auto& host : t.hosts) {
    host->free(all);
    host->uninstall(kPlan);
    host->free_scope({1});
  }
  for (auto& host : t.hosts) {
    while (host->bytes_in_use(0) + host->bytes_in_use(1) > 0) reactor->run_ready();
  }
}

TEST_P(HostSuspendTest, ASuspendedProgramMakesRoomForAnotherAndResumesOnceThatHasGone) {
  TestHosts alone(*reactor, 1, 2, GetParam());
  alone.install(kPlan, training_step(1, 2));
  const int64_t room = alone.hosts[0]->bytes_in_use(0), least = alone.hosts[0]->bytes_in_use(1);
  TestHosts t(*reactor, 1, 2, GetParam(), nullptr, room);
  t.install(kPlan, training_step(1, 2));
  const auto other = training_step(1, 2);
  EXPECT_EQ(error_of([&] { t.install(PlanId(2), other, {2}); }).kind(), ErrorKind::kOverloaded);
  t.hosts[0]->uninstall(PlanId(2), true);
  const int64_t bytes = move(t, kToHost)[0];
  EXPECT_EQ(t.hosts[0]->bytes_in_use(1), 0);
  t.install(PlanId(2), other, {2});
  const Error refused = error_of([&] { move(t, kToDevices); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(t.hosts[0]->bytes_in_use(0), room) << "of the other one alone";
  EXPECT_EQ(t.hosts[0]->bytes_in_use(1), least);
  EXPECT_EQ(t.hosts[0]->host_bytes(), bytes);
  t.hosts[0]->uninstall(PlanId(2));
  t.hosts[0]->free_scope({2});
  move(t, kToDevices);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
}

TEST_P(HostSuspendTest, AProgramWithARunUnderWayIsNotSuspendedAndASuspendedOneDoesNotRun) {
  TestHosts t(*reactor, 1, 1, GetParam());
  t.install(kPlan, training_step(1, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.hosts[0]->prepare({0, step_request(kPlan, 1, 0.25f)});
  const Error busy = error_of([&] { move(t, kToHost); });
  EXPECT_EQ(busy.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(busy.what(), HasSubstr("program \"step\": something of it is under way still"));
  t.hosts[0]->grant(t.grant_of(step_request(kPlan, 1, 0.25f)));
  EXPECT_FALSE(t.wait(RunId(1)).error);
  move(t, kToHost);
  t.hosts[0]->prepare({1, step_request(kPlan, 2)});
  const Done refused = t.wait(RunId(2));
  ASSERT_TRUE(refused.error);
  EXPECT_TRUE(refused.refused);
  EXPECT_EQ(refused.error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error->what(), HasSubstr("run of \"step\": its program is suspended"));
  t.hosts[0]->grant(t.grant_of(step_request(kPlan, 2)));
  EXPECT_THAT(error_of([&] { t.read_state<float>("w", 2); }).what(),
              HasSubstr("state \"w\": its program is suspended"));
  // A plan that would share its states.
  EXPECT_THAT(error_of([&] { t.install(PlanId(2), training_step(1, 1)); }).what(),
              HasSubstr("state \"w\": its program is suspended"));
  move(t, kToDevices);
  t.hosts[0]->prepare({2, step_request(kPlan, 3, 0.25f)});
  t.hosts[0]->grant(t.grant_of(step_request(kPlan, 3, 0.25f)));
  EXPECT_FALSE(t.wait(RunId(3)).error) << "it goes on behind the run that was refused";
}

TEST_P(HostSuspendTest, AProgramThatEndsWhileItIsAwayLeavesNothing) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  move(t, kToHost);
  for (auto& host : t.hosts) {
    host->uninstall(kPlan);
    EXPECT_GT(host->host_bytes(), 0);
    host->free_scope({1});
    // The device's thread may be the last to hold the state, and reports nothing when it drops it.
    while (host->host_bytes() > 0) reactor->run_ready();
    EXPECT_EQ(host->bytes_in_use(0), 0);
  }
  EXPECT_EQ(move(t, kToDevices)[0], 0) << "there is nothing to move";
}

TEST_P(HostSuspendTest, TransfersBetweenHostsContinueAfterASuspension) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, TestPlan::alternating_chain(2, 1, 8));
  for (uint64_t run = 1; run <= 6; ++run) {
    t.start({.plan = kPlan,
             .run = RunId(run),
             .arguments = {{0, {}, std::vector<std::byte>(4)}},
             .outputs = {ArrayId(1000 + run)}});
    const Done done = t.wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_EQ(t.item<float>(RunId(run), 0), 8.0f);
    if (run % 2 == 0) continue;
    move(t, kToHost);
    move(t, kToDevices);
  }
}

TEST_P(HostSuspendTest, MoreThanTheHostGivesToSuspendedProgramsIsRefusedAndNothingMoves) {
  EventLog log;
  Host host(*reactor,
            {.name = "host-0", .kind = GetParam(), .memory_bytes = 1 << 20, .suspended_bytes = 8},
            log);
  const Installed installed = host.install(kPlan, training_step(1, 1), 0, {1}).take();
  host.link(kPlan, installed.offers);
  host.commit_install(kPlan).await();
  const int64_t before = host.bytes_in_use(0);
  const Error refused = error_of([&] { host.move_states(kToHost).take(); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(refused.what(), HasSubstr("state \"w\": does not fit into the host's memory for "
                                        "suspended programs"));
  EXPECT_EQ(host.bytes_in_use(0), before);
  EXPECT_EQ(host.host_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, HostSuspendTest,
                         testing::Values(DeviceKind::kCpu, DeviceKind::kSim),
                         [](const auto& i) { return i.param == DeviceKind::kSim ? "Sim" : "Cpu"; });

}  // namespace
}  // namespace gangway::host_suspend_test
