// Programs that go on without their clients, on virtual time: detached, repeated, attached to
// again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/session.h"
#include "gangway.h"
#include "tests/sim/detached.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The detached program "trainer" has done one step.
void leave_a_trainer(SimCluster& cluster) {
  const Client first = cluster.connect("first", {.name = "trainer"});
  const Executable step = first.allocate({.devices = 4}).compile(falling());
  step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
  first.detach();
}

TEST(DetachTest, ADetachedProgramRepeatsItsStepsAndIsAttachedToAgain) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.lease_ms = 1000});
    Controller& controller = cluster.controller.controller();
    const Client first = cluster.connect("first", {.name = "trainer"});
    {
      const Slice slice = first.allocate({.devices = 4});
      const Executable step = slice.compile(falling());
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      step.repeat(100, {{"lr", 0.5f}, {"step", Schedule::linear(1, 1)}});
      first.detach();
    }
    EXPECT_THROW(first.status(), Error);
    pass(*reactor, 10 * kSecond);
    const std::vector<ProgramCounts> programs = controller.program_counts();
    ASSERT_EQ(programs.size(), 1u);
    EXPECT_TRUE(programs[0].detached);
    EXPECT_EQ(programs[0].runs_done, 101u);
    ASSERT_GE(programs[0].reported.size(), 2u);
    EXPECT_EQ(programs[0].reported[0].name, "step");
    EXPECT_EQ(programs[0].reported[0].value, 100);
    EXPECT_EQ(programs[0].reported[1].name, "loss");

    const Client second = cluster.attach("second", {.name = "trainer"});
    EXPECT_EQ(second.name(), "trainer");
    EXPECT_THAT(second.executables(), ElementsAre("falling"));
    ASSERT_EQ(second.slices().size(), 1u);
    const Executable step = second.executable("falling");
    const RepeatStatus status = step.repetition()->wait();
    EXPECT_EQ(status.done, 100);
    EXPECT_EQ(status.outputs.at(0).value, programs[0].reported[1].value);
    const std::vector<float> alone = losses_of_a_client(cluster, 102);
    EXPECT_EQ(static_cast<float>(status.outputs[0].value), alone[100]);
    // The second client goes on from the last step, with runs of its own.
    EXPECT_EQ(step.run({{"lr", 0.5f}, {"step", 101.0f}})["loss"].item<float>(), alone[101]);
    EXPECT_EQ(second.slices()[0].state_tensors().size(), 1u);
    second.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST(DetachTest, NobodyAttachesToAProgramThatHasAClientOrDoesNotExist) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", {.name = "trainer"});
    const Error taken = error_of([&] { cluster.attach("other", {.name = "trainer"}); });
    EXPECT_EQ(taken.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(taken.what(), HasSubstr("has a client"));
    const Error none = error_of([&] { cluster.attach("other", {.name = "trainer-2"}); });
    EXPECT_EQ(none.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(none.what(), HasSubstr("there is no program \"trainer-2\""));
    client.detach();
    const Client other = cluster.attach("other", {.name = "trainer"});
    EXPECT_EQ(other.status().programs.size(), 1u);
    other.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(DetachTest, AProgramThatNobodyNamedIsNotDetached) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    cluster.network.set_speed("controller", "client", {});
    const Client client =
        internal::connect_on(*reactor, cluster.network.endpoint("client"), "sim:controller");
    const Error error = error_of([&] { client.detach(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("a name that somebody chose"));
    EXPECT_EQ(client.status().programs.size(), 1u);
    client.close();
  });
}

// The controller has let the client in, and then refuses its next call, for what the program holds
// or to detach.
TEST(DetachTest, AnAttachOrADetachThatFailsLeavesTheProgramDetachedAndWhole) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.lease_ms = 1000});
    Controller& controller = cluster.controller.controller();
    leave_a_trainer(cluster);
    const std::string owner = controller.program_counts().at(0).owner;
    OwnerUse& use = controller.tables().owner_use;
    const auto all_calls = [&] {
      const uint64_t left =
          use.max(owner, OwnerResource::kCalls) - use.used(owner, OwnerResource::kCalls);
      return use.take(owner, OwnerResource::kCalls, left, "test");
    };
    const auto expect_detached = [&] {
      pass(*reactor, 5 * kSecond);
      ASSERT_EQ(controller.program_counts().size(), 1u);
      EXPECT_TRUE(controller.program_counts()[0].detached);
    };
    OwnerUse::Hold all = all_calls();
    const Error refused = error_of([&] { cluster.attach("second", {.name = "trainer"}); });
    EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded) << refused.what();
    all = {};
    expect_detached();
    {
      Client third = cluster.attach("third", {.name = "trainer"});
      all = all_calls();
      const Error kept = error_of([&] { third.detach(); });
      EXPECT_EQ(kept.kind(), ErrorKind::kOverloaded) << kept.what();
    }
    all = {};
    expect_detached();
    const Client last = cluster.attach("last", {.name = "trainer"});
    const std::vector<float> alone = losses_of_a_client(cluster, 2);
    EXPECT_EQ(last.executable("falling").run({{"lr", 0.5f}, {"step", 1.0f}})["loss"].item<float>(),
              alone[1]);
    last.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST(DetachTest, AClientThatDiesLeavesTheProgramDetachedAgain) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.lease_ms = 1000});
    leave_a_trainer(cluster);
    {
      const Client second =
          cluster.attach("second", {.name = "trainer", .on_warning = [](const std::string&) {}});
      const Executable step = second.executable("falling");
      step.run({{"lr", 0.5f}, {"step", 1.0f}}).wait();
      cluster.cut_off_client("second");
      pass(*reactor, 5 * kSecond);
    }
    const Client third = cluster.attach("third", {.name = "trainer"});
    const std::vector<float> alone = losses_of_a_client(cluster, 3);
    EXPECT_EQ(third.executable("falling").run({{"lr", 0.5f}, {"step", 2.0f}})["loss"].item<float>(),
              alone[2]);
    third.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(RepeatTest, RunsOfTheClientAreRefusedDuringARepetitionAndRunBehindIt) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(falling());
    const Repeat repeat = step.repeat(50, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
    EXPECT_FALSE(repeat.status().ended);
    const Error refused = error_of([&] { step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait(); });
    EXPECT_EQ(refused.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(refused.what(), HasSubstr("it is repeated"));
    EXPECT_THAT(error_of([&] { step.repeat(1, {{"lr", 0.5f}, {"step", 0.0f}}); }).what(),
                HasSubstr("repeated already"));
    EXPECT_EQ(repeat.wait().done, 50);
    EXPECT_EQ(step.run({{"lr", 0.5f}, {"step", 50.0f}})["loss"].item<float>(),
              losses_of_a_client(cluster, 51)[50]);
  });
}

TEST(RepeatTest, ACancelledRepetitionEndsBetweenTwoSteps) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(falling());
    const Repeat repeat = step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
    pass(*reactor, 100 * kMillisecond);
    repeat.cancel();
    const RepeatStatus status = repeat.wait();
    EXPECT_GT(status.done, 10);
    EXPECT_LT(status.done, 1'000'000);
    EXPECT_FALSE(status.error);
    const auto done = static_cast<size_t>(status.done);
    const std::vector<float> alone = losses_of_a_client(cluster, static_cast<int>(done));
    EXPECT_EQ(static_cast<float>(status.outputs.at(0).value), alone[done - 1]);
    step.repeat(3, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}}).wait();
    EXPECT_THROW(repeat.status(), Error);  // Another repetition has replaced it.
  });
}

TEST(RepeatTest, AStepThatFailsEndsTheRepetitionAndItsErrorIsKept) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.host_timeout_ms = 1000});
    const Client client = cluster.connect("client", {.name = "trainer"});
    {
      const Slice slice = client.allocate({.devices = 4});
      slice.compile(falling()).repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      const Executable step = slice.compile(falling(), {.name = "again"});
      const Repeat repeat =
          step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      pass(*reactor, 100 * kMillisecond);
      client.detach();
    }
    cluster.vanish(1);
    pass(*reactor, 20 * kSecond);
    const Client other = cluster.attach("other", {.name = "trainer"});
    const std::optional<Repeat> repeat = other.executable("again").repetition();
    ASSERT_TRUE(repeat);
    EXPECT_TRUE(repeat->status().ended);
    const Error error = error_of([&] { repeat->wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("host-1"));
    other.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(RepeatTest, InvalidInputsOfARepetitionAreRefusedByName) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(falling());
    const auto refused = [&](int64_t steps, const std::vector<RepeatedInput>& inputs) {
      const Error error = error_of([&] { step.repeat(steps, inputs); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.message();
    };
    const RepeatedInput lr{"lr", 0.5f}, at{"step", Schedule::linear(0, 1)};
    EXPECT_THAT(refused(1, {lr}), HasSubstr("input \"step\" is missing"));
    EXPECT_THAT(refused(1, {lr, at, at}), HasSubstr("is given twice"));
    EXPECT_THAT(refused(0, {lr, at}), HasSubstr("expected 1 to"));
    EXPECT_THAT(refused(1, {lr, {"stop", 1.0f}}), HasSubstr("no input \"stop\""));
    EXPECT_THAT(refused(1, {{"lr", 1}, at}), HasSubstr("expected f32[], got i32[]"));
    EXPECT_EQ(step.repeat(1, {lr, at}).wait().done, 1);

    ProgramBuilder b("counts", Mesh{{{"data", 1}}});
    b.output("twice", b.input("n", {DType::kI32, {}}) * 2);
    const Executable counts = client.allocate({.devices = 1}).compile(b.build());
    const Error error = error_of([&] { counts.repeat(3, {{"n", Schedule::linear(0, 0.25)}}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(),
                HasSubstr("input \"n\": the value in step 1 can't be 0.25 in i32"));
    EXPECT_EQ(counts.repeat(3, {{"n", Schedule::linear(0, 1)}}).wait().done, 3);
  });
}

TEST(DetachTest, NothingIsLostOrLeakedWhereConnectionsBreakWhileAClientDetachesAndAttaches) {
  const DetachReport report = detach_under_faults(tests::test_seed(), 60);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_GT(report.steps, 1000);
  EXPECT_GT(report.attached, 60);
}

}  // namespace
}  // namespace gangway
