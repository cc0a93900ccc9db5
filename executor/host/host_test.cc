#include "executor/host/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "executor/devices/device_threads_test.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway::host_test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr PlanId kPlan{1};

class HostTest : public testing::TestWithParam<DeviceKind> {
 protected:
  HostTest()
      : reactor(GetParam() == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real()) {
  }
  std::unique_ptr<Reactor> reactor;
};

TEST_P(HostTest, TrainsOverTwoHostsOfTwoDevicesAndKeepsStateInPlace) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, training_step(2, 2));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 3; ++run) t.start(step_request(kPlan, run, 0.25f));
  for (uint64_t run = 1; run <= 3; ++run)
    EXPECT_FALSE(t.wait(RunId(run)).error) << t.wait(RunId(run)).error->what();
  // w: 1 -> 2 -> 2.5 -> 2.75; loss = 2 * (w - 3)^2
  EXPECT_FLOAT_EQ(t.item<float>(RunId(1), 0), 8.0f);
  EXPECT_FLOAT_EQ(t.item<float>(RunId(2), 0), 2.0f);
  EXPECT_FLOAT_EQ(t.item<float>(RunId(3), 0), 0.5f);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(2.75f));
  EXPECT_THAT(t.get<float>(ArrayId(1003), 1), Each(0.5f));
}

// Three calls of 1, 2 and 3 ms over all devices.
std::shared_ptr<const Plan> three_timed_calls(uint32_t hosts, uint32_t devices) {
  TestPlan plan("timed", hosts, devices);
  uint32_t now = plan.input("x", f32());
  for (int n = 1; n <= 3; ++n) {
    Builder b("next", plan.mesh());
    b.result("y", timed(b.parameter("x", f32()), 1000 * n));
    const uint32_t next =
        n == 3 ? plan.output("y", f32()) : plan.value("", PlanStorage::kTemporary, f32());
    plan.call("next", plan.function(b.build()), {now}, {next});
    now = next;
  }
  return plan.share();
}

RunFrame timed_request() {
  return {.plan = kPlan,
          .run = RunId(1),
          .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
          .outputs = {ArrayId(1001)}};
}

// y = x + count, one by one.
std::shared_ptr<const Plan> additions(int count) {
  TestPlan plan("additions", 1, 1);
  const uint32_t x = plan.input("x", f32()), y = plan.output("y", f32());
  Builder b("next", plan.mesh());
  Value sum = b.parameter("x", f32());
  for (int i = 0; i < count; ++i) sum = sum + 1.0;
  b.result("y", sum);
  plan.call("next", plan.function(b.build()), {x}, {y});
  return plan.share();
}

// The same addition in a body, which could also hold a user's kernel.
std::shared_ptr<const Plan> addition_in_a_body() {
  TestPlan plan("addition", 1, 1);
  const uint32_t x = plan.input("x", f32()), y = plan.output("y", f32());
  Builder inner("inner", plan.mesh());
  inner.result("y", inner.parameter("x", f32()) + 3.0);
  Builder b("next", plan.mesh());
  b.result("y",
           call(b, std::make_shared<const Function>(inner.build()), {b.parameter("x", f32())})[0]);
  plan.call("next", plan.function(b.build()), {x}, {y});
  return plan.share();
}

struct HundredRuns {
  int ended_at_once = 0;
  int64_t sleeps = 0;  // Runs after which another thread has gone to sleep: the device's.
};

HundredRuns hundred_runs(const std::shared_ptr<const Plan>& plan) {
  const auto reactor = Reactor::make_real();
  TestHosts t(*reactor, 1, 1);
  t.install(kPlan, plan);
  HundredRuns runs;
  for (uint64_t run = 1; run <= 100; ++run) {
    RunFrame request = timed_request();
    request.run = RunId(run);
    request.outputs = {ArrayId(1000 + run)};
    tests::wait_until_others_sleep();  // Otherwise the device's thread may still be at it.
    const int64_t before = tests::sleeps_of_others();
    t.start(request);
    reactor->run_ready();
    runs.ended_at_once += t.logs[0]->done.contains(RunId(run)) ? 1 : 0;
    EXPECT_FALSE(t.wait(RunId(run)).error);
    EXPECT_EQ(t.item<float>(RunId(run), 0), 3.0f);
    tests::wait_until_others_sleep();
    runs.sleeps += tests::sleeps_of_others() > before ? 1 : 0;
    t.hosts[0]->free(request.outputs);
  }
  return runs;
}

TEST(HostBriefRuns, EndWithoutTheDevicesThread) {
  const HundredRuns runs = hundred_runs(additions(3));
  EXPECT_EQ(runs.ended_at_once, 100);
  EXPECT_LT(runs.sleeps, 20);  // Others may sleep too, and a sleep may be counted a moment later.
}

// Otherwise the host could not report that it is stuck in the kernel. The device's thread may be so
// fast on a busy machine that runs end before anybody looks, so only its sleeps tell that it ran.
TEST(HostBriefRuns, AreNoneWhereABodyMayHoldAUsersKernel) {
  EXPECT_GT(hundred_runs(addition_in_a_body()).sleeps, 80);
}

TEST_P(HostTest, TheFirstHostOfASliceTellsHowLongEachGrantedSectionTook) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, three_timed_calls(2, 2));
  for (auto& host : t.hosts) host->prepare({0, timed_request()});
  const auto grant = [&](uint32_t first, uint32_t count) {
    for (auto& host : t.hosts) {
      host->grant({{{.run = RunId(1),
                     .slice = 0,
                     .first = first,
                     .count = count,
                     .ticket = Ticket(first + 1)}}});
    }
  };
  grant(0, 1);
  reactor->run_until([&] { return !t.logs[0]->reported.empty(); });
  const SectionTime one = t.logs[0]->reported[0];
  EXPECT_EQ(one.position_end, 1u);
  EXPECT_GE(one.busy_ns, 1'000'000);
  grant(1, 2);
  EXPECT_FALSE(t.wait(RunId(1)).error);
  int64_t busy_ns = 0;
  for (const SectionTime& time : t.logs[0]->reported) busy_ns += time.busy_ns;
  EXPECT_EQ(t.logs[0]->reported.back().position_end, 3u);
  EXPECT_GE(busy_ns, 6'000'000);
  if (GetParam() == DeviceKind::kSim) {
    EXPECT_EQ(busy_ns, 6'000'000);
  }
  EXPECT_TRUE(t.logs[1]->reported.empty());
}

TEST_P(HostTest, AHostReportsTheProgressOfARunThatIsGrantedWholeAtItsEnd) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, three_timed_calls(2, 2));
  t.start(timed_request());
  EXPECT_FALSE(t.wait(RunId(1)).error);
  ASSERT_EQ(t.logs[0]->reported.size(), 1u);
  EXPECT_EQ(t.logs[0]->reported[0].position_end, 3u);
  EXPECT_GE(t.logs[0]->reported[0].busy_ns, 6'000'000);
}

TEST_P(HostTest, AStepWhoseLossIsNotFiniteCommitsNothingAndNamesTheFirstOp) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, training_step(2, 2));
  std::vector<float> x(16, 3.0f);
  x[13] = 30.0f;  // exp(29 * 29) overflows, on the last device.
  t.put<float>(ArrayId(100), kPlan, 0, x);
  t.start(step_request(kPlan, 1));
  const Done done = t.wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_TRUE(done.is_origin);
  EXPECT_THAT(done.error->what(), HasSubstr("exp of f32[2, 2]"));
  EXPECT_THAT(done.error->what(), HasSubstr("training_step.h"));
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
  // The next run is not affected.
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.start(step_request(kPlan, 2));
  EXPECT_FALSE(t.wait(RunId(2)).error);
}

TEST_P(HostTest, ACancelledRunEndsOnAllHostsWithoutCommitting) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.start_on(0, step_request(kPlan, 1));
  t.hosts[0]->cancel(RunId(1), ErrorKind::kCancelled, "run: its time limit passed");
  t.start_on(1, step_request(kPlan, 1));
  const Done done = t.wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(t.logs[1]->done[RunId(1)].error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
}

// The next run can't use the counters that a lost peer left halfway through a collective.
TEST_P(HostTest, WhenAPeerIsGoneAllRunsOfThePlanAreGivenUp) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 2; ++run) t.start_on(0, step_request(kPlan, run));
  t.hosts[0]->cancel(RunId(1), ErrorKind::kUnavailable, "host-1 is gone");
  const auto& done = t.logs[0]->done;
  reactor->run_until([&] { return done.size() == 2; });
  t.start_on(0, step_request(kPlan, 3));
  reactor->run_until([&] { return done.size() == 3; });
  for (uint64_t run = 1; run <= 2; ++run)
    EXPECT_EQ(done.at(RunId(run)).error->kind(), ErrorKind::kUnavailable) << run;
  EXPECT_EQ(done.at(RunId(3)).error->kind(), ErrorKind::kCancelled) << "it met the plan as it was";
}

TEST_P(HostTest, ARunWithABadArgumentFailsWithItsNameAndLeavesStateAsItWas) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  t.start(step_request(kPlan, 1));
  const Done done = t.wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->kind(), ErrorKind::kInvalid);
  EXPECT_THAT(done.error->what(), HasSubstr("\"x\""));
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
  // Its outputs carry the error on.
  t.get<float>(ArrayId(1001), 1);
  ASSERT_TRUE(t.transfer_error);
  EXPECT_EQ(t.transfer_error->kind(), ErrorKind::kInvalid);
}

TEST_P(HostTest, AHostThatGetsARunOfAnotherShapeTakesPartInItAsFailed) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  RunFrame wrong = step_request(kPlan, 1);
  wrong.outputs.clear();
  t.start_on(0, wrong);
  t.start_on(1, step_request(kPlan, 1));
  const Done done = t.wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->kind(), ErrorKind::kInvalid);
  EXPECT_THAT(done.error->what(), HasSubstr("expected 1 outputs"));
  EXPECT_TRUE(t.logs[1]->done[RunId(1)].error) << "its peer waits for nobody";
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
}

TEST_P(HostTest, PlannedBytesAreTheBytesAskedOfTheAllocator) {
  TestHosts t(*reactor, 2, 2, GetParam());
  std::vector<int64_t> before;
  for (auto& host : t.hosts) before.push_back(host->bytes_in_use(1));
  const std::vector<Installed> installed = t.install(kPlan, training_step(2, 2));
  for (size_t h = 0; h < 2; ++h) {
    ASSERT_EQ(installed[h].needs.size(), 2u);
    EXPECT_EQ(installed[h].needs[1].total(), t.hosts[h]->bytes_in_use(1) - before[h]);
    EXPECT_EQ(t.hosts[h]->bytes_peak(1), t.hosts[h]->bytes_in_use(1));
  }
  // A run lies behind the initialisers in every stream; they hold the arena until they have run.
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.start(step_request(kPlan, 1));
  EXPECT_FALSE(t.wait(RunId(1)).error);
  const std::vector<ArrayId> arrays = {ArrayId(100), ArrayId(1001)};
  for (auto& host : t.hosts) host->free(arrays);
  for (auto& host : t.hosts) host->uninstall(kPlan);
  for (auto& host : t.hosts) host->free_scope({1});
  for (size_t h = 0; h < 2; ++h) EXPECT_EQ(t.hosts[h]->bytes_in_use(1), before[h]);
}

TEST_P(HostTest, AProgramThatDoesNotFitSaysWhatNeedsHowMuchAndWhere) {
  TestHosts t(*reactor, 1, 1, GetParam(), nullptr, 256);
  try {
    t.install(kPlan, training_step(1, 1));
    FAIL() << "installed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.what(), HasSubstr("program \"step\""));
    EXPECT_THAT(error.what(), HasSubstr("host-0/0"));
    EXPECT_THAT(error.what(), HasSubstr("short"));
  }
}

// An overlaid plan of two calls, with the value between them in its arena: y = (x + 1) * 2.
std::shared_ptr<const Plan> overlaid_plan(int64_t elements) {
  TestPlan plan("overlaid", 1, 2);
  const Type type = f32({2, elements});
  const uint32_t x = plan.input("x", f32()), y = plan.output("y", f32());
  const uint32_t between = plan.value("", PlanStorage::kTemporary, type);
  Builder first("first", plan.mesh());
  first.result("z", broadcast_to(first.parameter("x", f32()) + 1.0, {2, elements}));
  Builder second("second", plan.mesh());
  second.result(
      "y", sum(timed(second.parameter("z", type), 100)) * (1.0 / static_cast<double>(elements)));
  plan.call("first", plan.function(first.build()), {x}, {between});
  plan.call("second", plan.function(second.build()), {between}, {y});
  plan.plan().overlaid = true;
  return plan.share();
}

TEST_P(HostTest, ArenasOfOverlaidPlansLieOverOneAnother) {
  TestHosts t(*reactor, 1, 2, GetParam());
  const DeviceNeed large = t.install(kPlan, overlaid_plan(4096))[0].needs[0];
  EXPECT_GE(large.overlaid, 4096 * 4);
  EXPECT_EQ(t.hosts[0]->bytes_in_use(0), large.total());
  const DeviceNeed small = t.install(PlanId(2), overlaid_plan(1024), {2})[0].needs[0];
  EXPECT_LT(small.overlaid, large.overlaid);
  EXPECT_EQ(t.hosts[0]->bytes_in_use(0), large.total() + small.total() - small.overlaid);
  t.hosts[0]->uninstall(kPlan);
  EXPECT_EQ(t.hosts[0]->bytes_in_use(0), small.total());
  t.hosts[0]->uninstall(PlanId(2));
  EXPECT_EQ(t.hosts[0]->bytes_in_use(0), 0);
}

RunFrame overlaid_request(PlanId plan, uint64_t run) {
  const auto x = static_cast<float>(run);
  std::vector<std::byte> bytes(sizeof x);
  std::memcpy(bytes.data(), &x, sizeof x);
  return {.plan = plan,
          .run = RunId(run),
          .arguments = {{.input = 0, .bytes = bytes}},
          .outputs = {ArrayId(1000 + run)}};
}

TEST_P(HostTest, RunsOfOverlaidPlansFollowOneAnother) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, overlaid_plan(1024));
  t.install(PlanId(2), overlaid_plan(2048), {2});
  for (uint64_t run = 1; run <= 6; ++run) t.start(overlaid_request(PlanId(1 + run % 2), run));
  for (uint64_t run = 1; run <= 6; ++run) {
    EXPECT_FALSE(t.wait(RunId(run)).error);
    EXPECT_EQ(t.item<float>(RunId(run), 0), 2 * (static_cast<float>(run) + 1));
  }
}

TEST_P(HostTest, ARunThatComesInTheMiddleOfAnOverlaidOneIsRefused) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, overlaid_plan(1024));
  t.install(PlanId(2), overlaid_plan(2048), {2});
  Host& host = *t.hosts[0];
  host.prepare({0, overlaid_request(kPlan, 1)});
  host.grant({{{.run = RunId(1), .slice = 0, .count = 1, .ticket = Ticket(1)}}});
  reactor->run_until([&] { return !t.logs[0]->reported.empty(); });
  host.prepare({0, overlaid_request(PlanId(2), 2)});
  host.grant({{{.run = RunId(2), .slice = 0, .count = 2, .ticket = Ticket(2)}}});
  const Done refused = t.wait(RunId(2));
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind(), ErrorKind::kBug);
  EXPECT_THAT(refused.error->what(),
              HasSubstr("lie where those of run 1 lie, which has not ended"));
  host.grant({{{.run = RunId(1), .slice = 0, .first = 1, .count = 1, .ticket = Ticket(4)}}});
  EXPECT_FALSE(t.wait(RunId(1)).error);
  EXPECT_EQ(t.item<float>(RunId(1), 0), 4) << "nobody wrote over what it computes with";
}

TEST_P(HostTest, AnOverlaidRunThatIsGivenUpBeforeItBeginsDisturbsNobody) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, overlaid_plan(1024));
  t.install(PlanId(2), overlaid_plan(2048), {2});
  Host& host = *t.hosts[0];
  host.prepare({0, overlaid_request(kPlan, 1)});
  host.grant({{{.run = RunId(1), .slice = 0, .count = 1, .ticket = Ticket(1)}}});
  reactor->run_until([&] { return !t.logs[0]->reported.empty(); });
  host.prepare({0, overlaid_request(PlanId(2), 2)});
  host.uninstall(PlanId(2));
  const Done given_up = t.wait(RunId(2));
  ASSERT_TRUE(given_up.error.has_value());
  EXPECT_EQ(given_up.error->kind(), ErrorKind::kCancelled) << given_up.error->what();
  host.grant({{{.run = RunId(1), .slice = 0, .first = 1, .count = 1, .ticket = Ticket(2)}}});
  EXPECT_FALSE(t.wait(RunId(1)).error);
  EXPECT_EQ(t.item<float>(RunId(1), 0), 4);
}

TEST_P(HostTest, RunsBeyondTheBoundWaitForTheirTurn) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, training_step(1, 2));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 20; ++run) t.start(step_request(kPlan, run, 0.1f));
  for (uint64_t run = 1; run <= 20; ++run) EXPECT_FALSE(t.wait(RunId(run)).error);
  EXPECT_LT(t.item<float>(RunId(20), 0), t.item<float>(RunId(1), 0));
}

TEST_P(HostTest, StatesOfOneNameAreSharedInAScopeAndMustAgree) {
  TestHosts t(*reactor, 1, 1, GetParam());
  t.install(kPlan, training_step(1, 1));
  t.write_state<float>("w", {5.0f, 6.0f});
  t.install(PlanId(2), training_step(1, 1));
  EXPECT_THAT(t.read_state<float>("w", 2), testing::ElementsAre(5.0f, 6.0f));
  t.install(PlanId(3), training_step(1, 1), {2});
  EXPECT_THAT(t.read_state<float>("w", 2, {2}), Each(1.0f));
  TestPlan other("other", 1, 1);
  other.state("w", f32({3}), 0);
  EXPECT_THROW(static_cast<void>(t.hosts[0]->install(PlanId(4), other.share(), 0, {1})), Error);
}

// The plan may have failed on another host: a state that is filled here then has no owner.
TEST_P(HostTest, StatesOfARefusedPlanAreInitialisedAgainUnlessAnotherPlanSharesThem) {
  TestHosts t(*reactor, 1, 1, GetParam());
  t.install(kPlan, training_step(1, 1));
  t.write_state<float>("w", {5.0f, 6.0f});
  t.hosts[0]->uninstall(kPlan, true);
  t.install(PlanId(2), training_step(1, 1));
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
  t.write_state<float>("w", {5.0f, 6.0f});
  t.install(PlanId(3), training_step(1, 1));
  t.hosts[0]->uninstall(PlanId(2), true);
  EXPECT_THAT(t.read_state<float>("w", 2), testing::ElementsAre(5.0f, 6.0f));
}

// The error that commit_install throws.
std::optional<Error> refusal(Host& host, PlanId id) {
  try {
    static_cast<void>(host.commit_install(id));
  } catch (const Error& error) {
    return error;
  }
  return {};
}

TEST_P(HostTest, APlanDoesNotStartFromAStateThatIsStillBeingInitialised) {
  TestHosts t(*reactor, 1, 1, GetParam());
  Host& host = *t.hosts[0];
  for (const PlanId id : {kPlan, PlanId(2)})
    host.link(id, host.install(id, training_step(1, 1), 0, {1}).take().offers);
  const Future<void> first = host.commit_install(kPlan);
  ASSERT_FALSE(first.ready());
  const std::optional<Error> refused = refusal(host, PlanId(2));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused->what(), HasSubstr("compile again"));
  host.uninstall(PlanId(2), true);
  first.await();
  EXPECT_THAT(t.read_state<float>("w", 2), Each(1.0f));
}

TEST_P(HostTest, APlanThatIsUninstalledWhileItsStatesAreInitialisedLeavesItsDevicesInOrder) {
  TestHosts t(*reactor, 1, 1, GetParam());
  Host& host = *t.hosts[0];
  for (uint64_t id = 1; id <= 8; ++id) {
    host.link(PlanId(id), host.install(PlanId(id), training_step(1, 1), 0, {id}).take().offers);
    const Future<void> committed = host.commit_install(PlanId(id));
    host.uninstall(PlanId(id), true);
    EXPECT_TRUE(committed.ready());
  }
  t.install(PlanId(9), training_step(1, 1), {9});
  EXPECT_THAT(t.read_state<float>("w", 2, {9}), Each(1.0f));
}

TEST_P(HostTest, APlanWhoseSharedStateWentAwayIsRefusedAndNeverReady) {
  TestHosts t(*reactor, 1, 1, GetParam());
  Host& host = *t.hosts[0];
  t.install(kPlan, training_step(1, 1));
  TestPlan two("two", 1, 1);
  two.state("new", f32({2}), 3.0);
  two.state("w", f32({2}), 1.0);
  host.link(PlanId(2), host.install(PlanId(2), two.share(), 0, {1}).take().offers);
  host.free_scope({1});
  const std::optional<Error> refused = refusal(host, PlanId(2));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused->what(), HasSubstr("compile again"));
  // The initialiser of the other state ends before this plan's do.
  t.install(PlanId(3), training_step(1, 1));
  EXPECT_THROW(host.prepare({0, {.plan = PlanId(2), .run = RunId(1)}}), Error);
  EXPECT_THROW(t.read_state<float>("new", 2), Error);
}

TEST_P(HostTest, APlanWhoseLinkFailedCanStillBeLinked) {
  TestHosts t(*reactor, 2, 1, GetParam());
  const auto plan = training_step(2, 1);
  t.will_start(kPlan, plan);
  std::vector<Future<Installed>> installed;
  for (uint32_t h = 0; h < 2; ++h) installed.push_back(t.hosts[h]->install(kPlan, plan, h, {1}));
  std::vector<LinkOffer> offers;
  for (Future<Installed>& one : installed) offers.push_back(one.take().offers.at(0));
  for (uint32_t h = 0; h < 2; ++h) {
    EXPECT_THROW(t.hosts[h]->link(kPlan, {offers[h]}), Error) << "the other host's is missing";
    t.hosts[h]->link(kPlan, offers);
  }
  for (auto& host : t.hosts) host->commit_install(kPlan).await();
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.start(step_request(kPlan, 1));
  EXPECT_FALSE(t.wait(RunId(1)).error);
  EXPECT_FLOAT_EQ(t.item<float>(RunId(1), 0), 8.0f);
}

TEST_P(HostTest, APlanThatFindsNoRoomTakesNoneAndIsCommittedOnceThereIsRoom) {
  TestHosts alone(*reactor, 1, 1, GetParam());
  const DeviceNeed need = alone.install(kPlan, training_step(1, 1))[0].needs[0];
  const int64_t room = alone.hosts[0]->bytes_in_use(0);
  // The last block that the second plan allocates before its states does not fit beside the first.
  TestHosts t(*reactor, 1, 1, GetParam(), nullptr, room + need.total() - need.state - 1);
  t.install(kPlan, training_step(1, 1));
  Host& host = *t.hosts[0];
  host.link(PlanId(2), host.install(PlanId(2), training_step(1, 1), 0, {2}).take().offers);
  const std::optional<Error> refused = refusal(host, PlanId(2));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(host.bytes_in_use(0), room) << "the first plan's alone";
  host.uninstall(kPlan);
  host.free_scope({1});
  host.commit_install(PlanId(2)).await();
  EXPECT_THAT(t.read_state<float>("w", 2, {2}), Each(1.0f));
}

TEST_P(HostTest, AnArrayThatNobodyMadeCannotBeRead) {
  TestHosts t(*reactor, 1, 1, GetParam());
  try {
    t.get<float>(ArrayId(7), 1);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("array 7 is not here"));
  }
}

// The gate is the only collective, so a host reaches it alone.
std::shared_ptr<const Plan> counting_step(uint32_t hosts) {
  TestPlan t("count", hosts, 1);
  Builder b("count", t.mesh());
  Value w = b.parameter("w", f32({2}));
  b.result("w", w + 1.0);
  const uint32_t state = t.state("w", f32({2}), 1.0);
  const uint32_t function = t.function(b.build(), {.in_place = {{0, 0}}});
  const uint32_t call = t.call("count", function, {state}, {state});
  t.gate();
  t.commit(call);
  return t.share();
}

TEST(HostGateTest, ACancelThatComesWhileADeviceWaitsAtTheGateIsTooLateOnAllHosts) {
  const auto reactor = Reactor::make_simulated();
  TestHosts t(*reactor, 2, 1, DeviceKind::kSim);
  t.install(kPlan, counting_step(2));
  const RunFrame request{.plan = kPlan, .run = RunId(1)};
  t.start_on(0, request);
  reactor->run([&] {
    WaitQueue().wait_until_ns("for the gate", reactor->clock().now_ns() + 1'000'000'000);
  });
  t.hosts[0]->cancel(RunId(1), ErrorKind::kCancelled, "run: its time limit passed");
  t.start_on(1, request);
  t.wait(RunId(1));
  for (const auto& log : t.logs) EXPECT_FALSE(log->done[RunId(1)].error);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(2.0f));
}

// It commits without a ticket that was granted, so nothing is reported to the controller.
TEST(HostGateTest, ARunThatIsGivenUpBehindItsGateCommitsAndTellsOfNoTimesThatWereNotGranted) {
  const auto reactor = Reactor::make_simulated();
  TestHosts t(*reactor, 1, 1, DeviceKind::kSim);
  t.install(kPlan, counting_step(1));
  const RunFrame request{.plan = kPlan, .run = RunId(1)};
  GrantFrame grant = t.grant_of(request);
  ASSERT_EQ(grant.ranges[0].count, 3u) << "a call, a gate, a commit";
  grant.ranges[0].count = 2;
  t.hosts[0]->prepare({0, request});
  t.hosts[0]->grant(grant);
  reactor->run([&] {
    WaitQueue().wait_until_ns("for the gate", reactor->clock().now_ns() + 1'000'000'000);
  });
  t.hosts[0]->cancel(RunId(1), ErrorKind::kUnavailable, "another host of its plan is gone");
  EXPECT_FALSE(t.wait(RunId(1)).error);
  for (const SectionTime& time : t.logs[0]->reported) EXPECT_LE(time.position_end, 2u);
  EXPECT_THAT(t.read_state<float>("w", 2), Each(2.0f));
}

// Message of the error that `call` throws.
template <class Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInvalid ? error.what() : "of another kind";
  }
  return "nothing";
}

TEST_P(HostTest, PreparesAndGrantsOutOfOrderAreRefused) {
  TestHosts t(*reactor, 1, 1, GetParam());
  t.install(kPlan, training_step(1, 1));  // A call, a gate, a commit; two runs in flight.
  Host& host = *t.hosts[0];
  const auto prepare = [&](uint64_t ordinal, uint64_t run) {
    return complaint([&] { host.prepare({ordinal, step_request(kPlan, run)}); });
  };
  const auto grant = [&](uint64_t run, uint32_t first, uint32_t count, uint64_t ticket,
                         uint32_t slice = 0) {
    return complaint([&] { host.grant({{{RunId(run), slice, first, count, Ticket(ticket)}}}); });
  };
  EXPECT_THAT(prepare(1, 1), HasSubstr("expected run number 0 of its plan, got number 1"));
  EXPECT_EQ(prepare(0, 1), "nothing");
  EXPECT_THAT(prepare(0, 2), HasSubstr("expected run number 1 of its plan, got number 0"));
  EXPECT_THAT(prepare(1, 1), HasSubstr("was prepared already"));
  EXPECT_EQ(prepare(1, 2), "nothing");
  EXPECT_THAT(prepare(2, 3), HasSubstr("expected at most 2 runs in flight"));
  EXPECT_THAT(grant(1, 1, 1, 5), HasSubstr("expected positions from 0 on, of 3"));
  EXPECT_THAT(grant(1, 0, 4, 15), HasSubstr("expected positions from 0 on, of 3"));
  EXPECT_THAT(grant(1, 0, 1, 20, 1), HasSubstr("slice 1 does not exist"));
  EXPECT_EQ(grant(1, 0, 1, 25), "nothing");
  EXPECT_THAT(grant(1, 0, 1, 26), HasSubstr("expected positions from 1 on, of 3, got 0"));
  EXPECT_THAT(grant(1, 0, 1, 27, kEverySlice), HasSubstr("expected ranges of single slices"));
  EXPECT_EQ(grant(9, 0, 1, 30), "nothing") << "of a run that is not here";
  EXPECT_THAT(grant(1, 1, 1, 30), HasSubstr("expected a ticket above 30, got 30"))
      << "also of a gate, whose ticket only its other slices share";
}

TEST_P(HostTest, ADeviceGoesAsFarAsItsTicketsReach) {
  TestHosts t(*reactor, 1, 1, GetParam());
  t.install(kPlan, training_step(1, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  Host& host = *t.hosts[0];
  host.prepare({0, step_request(kPlan, 1)});
  for (uint32_t position = 0; position < 3; ++position) {
    EXPECT_FALSE(t.logs[0]->done.contains(RunId(1)));
    host.grant({{{RunId(1), 0, position, 1, Ticket(10 + position)}}});
    reactor->run_ready();
  }
  EXPECT_FALSE(t.wait(RunId(1)).error);
}

TEST_P(HostTest, AnArgumentInsideTheRequestIsCutAsItsInputIs) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, training_step(2, 2));
  RunFrame request = step_request(kPlan, 1);
  std::vector<float> x(16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 8;
  t.put<float>(ArrayId(100), kPlan, 0, x);
  t.start(request);
  EXPECT_FALSE(t.wait(RunId(1)).error);
  const std::vector<float> by_array = t.read_state<float>("w", 2);
  t.write_state<float>("w", {1.0f, 1.0f});
  request.run = RunId(2);
  request.outputs = {ArrayId(2002)};
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  request.arguments[0] = {.input = 0, .bytes = {bytes, bytes + x.size() * sizeof(float)}};
  t.start(request);
  EXPECT_FALSE(t.wait(RunId(2)).error);
  EXPECT_EQ(t.read_state<float>("w", 2), by_array);
}

TEST_P(HostTest, ARunAfterOneThatDidNotCommitDoesNotCommitEither) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, training_step(2, 1));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  const auto after = [](uint64_t run, uint64_t before) {
    RunFrame request = step_request(kPlan, run);
    request.after = RunId(before);
    return request;
  };
  t.start(after(1, 0));
  t.start(after(2, 1));
  EXPECT_FALSE(t.wait(RunId(2)).error);
  const std::vector<float> w = t.read_state<float>("w", 2);
  RunFrame bad = after(3, 2);
  bad.arguments.clear();
  t.start(bad);
  t.start(after(4, 3));
  t.start(after(5, 4));
  EXPECT_EQ(t.wait(RunId(3)).error->kind(), ErrorKind::kInvalid);
  for (const uint64_t run : {4, 5}) {
    const Done done = t.wait(RunId(run));
    ASSERT_TRUE(done.error) << run;
    EXPECT_EQ(done.error->kind(), ErrorKind::kCancelled);
    EXPECT_THAT(done.error->what(), HasSubstr("the run before it did not commit"));
  }
  EXPECT_EQ(t.read_state<float>("w", 2), w);
  t.start(after(6, 0));  // A new chain.
  EXPECT_FALSE(t.wait(RunId(6)).error);
  EXPECT_NE(t.read_state<float>("w", 2), w);
}

TEST_P(HostTest, AHostMayGoWhileItsRunsAreUnderWay) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, training_step(1, 2));
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 2; ++run) t.start(step_request(kPlan, run));
  t.hosts.clear();
  reactor->run_ready();  // Mail of runs that had just ended.
  EXPECT_TRUE(t.logs[0]->done.empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTest, testing::Values(DeviceKind::kCpu, DeviceKind::kSim),
                         [](const auto& i) { return i.param == DeviceKind::kSim ? "Sim" : "Cpu"; });

}  // namespace
}  // namespace gangway::host_test
