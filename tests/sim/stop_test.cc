// Programs that are asked to end, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_dir.h"
#include "controller/programs/checkpoints.h"
#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/sim/detached.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(StopTest, ADetachedProgramEndsBetweenTwoSteps) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    Controller& controller = cluster.controller.controller();
    const Client other = cluster.connect("other");
    for (const int64_t grace_ms : {30'000, 0}) {
      const Client client = cluster.connect("client", {.name = "trainer"});
      {
        const Slice slice = client.allocate({.devices = 4});
        slice.compile(falling());
        const Executable step = slice.compile(falling(), {.name = "again"});
        step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
        client.detach();
      }
      pass(*reactor, 100 * kMillisecond);
      EXPECT_GT(controller.program_counts().back().runs_done, 10u);
      const int64_t begin_ns = reactor->clock().now_ns();
      EXPECT_FALSE(other.stop_program("trainer", grace_ms));
      EXPECT_LT(reactor->clock().now_ns() - begin_ns, kSecond);
      EXPECT_EQ(controller.program_counts().size(), 1u);
      pass(*reactor, kSecond);
      EXPECT_EQ(controller.counts().slices + controller.counts().plans + controller.counts().runs,
                0u);
    }
    other.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST(StopTest, AClientIsToldAndEndsByItself) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    std::string told_by;
    int64_t told_ms = 0;
    WaitQueue told;
    const Client client = cluster.connect(
        "client", {.name = "trainer", .on_stop = [&](const std::string& by, int64_t grace_ms) {
                     told_by = by;
                     told_ms = grace_ms;
                     told.wake_all();
                   }});
    EXPECT_FALSE(client.stop_requested());
    Fiber ends = reactor->spawn("end", [&] {
      while (told_by.empty()) told.wait("to be told");
      EXPECT_TRUE(client.stop_requested());
      pass(*reactor, 5 * kSecond);
      client.close();
    });
    const Client other = cluster.connect("other");
    EXPECT_FALSE(other.stop_program("trainer", 20'000));
    EXPECT_EQ(told_by, other.status().programs.at(0).owner);
    EXPECT_EQ(told_ms, 20'000);
    ends.join();
    other.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(StopTest, AClientThatDoesNotEndIsEndedByForceAfterTheGrace) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    Controller& controller = cluster.controller.controller();
    const Client client = cluster.connect("client", {.name = "trainer"});
    const Client other = cluster.connect("other");
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(falling());
      step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      const int64_t begin_ns = reactor->clock().now_ns();
      EXPECT_TRUE(other.stop_program("trainer", 5000));
      EXPECT_GE(reactor->clock().now_ns() - begin_ns, 5 * kSecond);
      EXPECT_EQ(controller.counts().clients, 1u);
      const Error error = error_of([&] { slice.read_state("w"); });
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(error.what(), HasSubstr("asked it to stop"));
    }
    client.close();
    other.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST(StopTest, AControllerThatIsToldToEndWaitsOnlyForClientsThatEndTheirPrograms) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const int64_t begin_ns = reactor->clock().now_ns();
    const auto seconds = [&] {
      return static_cast<double>(reactor->clock().now_ns() - begin_ns) / kSecond;
    };
    WaitQueue told;
    bool is_told = false;
    const Client heeds = cluster.connect(
        "client", {.name = "heeds", .on_stop = [&](const std::string& by, int64_t grace_ms) {
                     EXPECT_THAT(by, HasSubstr("the controller"));
                     EXPECT_EQ(grace_ms, 20'000);
                     is_told = true;
                     told.wake_all();
                   }});
    const Client does_not = cluster.connect("other", {.name = "does not"});
    Fiber ends = reactor->spawn("end", [&] {
      while (!is_told) told.wait("to be told");
      pass(*reactor, 5 * kSecond);
      heeds.close();
    });
    cluster.controller.service->end_in_order(20'000);
    EXPECT_GE(seconds(), 5);
    EXPECT_LT(seconds(), 6);
    ends.join();
    EXPECT_THAT(error_text_of([&] { cluster.connect("late"); }),
                HasSubstr("the controller was told to end"));
    does_not.close();
  });
}

TEST(StopTest, AControllerThatIsToldToEndAtOnceWaitsForNobody) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client =
        cluster.connect("client", {.name = "stays", .on_stop = [](const std::string&, int64_t) {}});
    const int64_t begin_ns = reactor->clock().now_ns();
    StopSource at_once;
    Fiber hurries = reactor->spawn("hurry", [&] {
      pass(*reactor, 2 * kSecond);
      at_once.request_stop(Error(ErrorKind::kCancelled, "at once"));
    });
    cluster.controller.service->end_in_order(60'000, at_once.token());
    EXPECT_LT(reactor->clock().now_ns() - begin_ns, 3 * kSecond);
    hurries.join();
    client.close();
  });
}

// The hosts stand still before the request to write the files reaches one of them. They go on
// within the grace, or after it.
TEST(StopTest, AControllerThatIsToldToEndWaitsForTheCheckpointUnderWayButNotBeyondTheGrace) {
  constexpr int64_t kGraceSeconds = 4;
  for (const int64_t goes_on_after : {kGraceSeconds - 2, kGraceSeconds + 2}) {
    const bool is_in_time = goes_on_after < kGraceSeconds;
    const TempDir root;
    auto reactor = Reactor::make_simulated({.seed = 3});
    reactor->run([&] {
      SimCluster cluster(*reactor, {.checkpoint_folder = root.path().string()});
      const Checkpoints& checkpoints = cluster.controller.controller().checkpoints();
      const Client client = cluster.connect("client", {.name = "trainer"});
      {
        const Slice slice = client.allocate({.devices = 4});
        const Executable step = slice.compile(falling());
        slice.keep_checkpoints({.every = 10});
        step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
        for (int i = 0; i < 100'000 && checkpoints.under_way() == 0; ++i)
          pass(*reactor, kMillisecond / 100);
        for (const int host : {0, 1}) cluster.stop(host);
        EXPECT_EQ(checkpoints.under_way(), 1u);
        const int64_t begin_ns = reactor->clock().now_ns();
        Fiber goes_on = reactor->spawn("go on", [&] {
          pass(*reactor, goes_on_after * kSecond);
          for (const int host : {0, 1}) cluster.resume(host);
        });
        cluster.controller.service->end_in_order(kGraceSeconds * 1000);
        const int64_t took_ns = reactor->clock().now_ns() - begin_ns;
        EXPECT_EQ(took_ns / kSecond, is_in_time ? goes_on_after : kGraceSeconds);
        EXPECT_EQ(checkpoints.under_way(), is_in_time ? 0u : 1u);
        goes_on.join();
        pass(*reactor, kSecond);
      }
      client.close();
    });
    const auto folder = root.path() / Checkpoints::escaped(own_user_name()) / "trainer";
    EXPECT_THAT(CheckpointDir(folder).steps(), SizeIs(1)) << "no later one was begun";
  }
}

TEST(StopTest, AClientThatWasAwayIsToldWhenItComesBack) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client =
        cluster.connect("client", {.name = "trainer", .on_warning = [](const std::string&) {}});
    const Client other = cluster.connect("other");
    cluster.cut_off_client("client");
    bool by_force = true;
    Fiber stops = reactor->spawn("stop", [&] { by_force = other.stop_program("trainer", 20'000); });
    pass(*reactor, kSecond);
    EXPECT_FALSE(client.stop_requested());
    cluster.network.heal("client", "controller");
    pass(*reactor, 2 * kSecond);
    EXPECT_TRUE(client.stop_requested());
    client.close();
    stops.join();
    EXPECT_FALSE(by_force);
    other.close();
  });
}

TEST(StopTest, StoppingAnUnknownProgramIsRefused) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", {.name = "trainer"});
    for (const char* name : {"trainers", "nobody/trainer", "", "/"}) {
      const Error error = error_of([&] { client.stop_program(name, 0); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(cat("there is no program \"", name, "\" that ")));
    }
    EXPECT_THROW(client.stop_program("trainer", -1), Error);
    EXPECT_FALSE(client.stop_requested());
    const Client other = cluster.connect("other");
    const std::string owner = other.status().programs.at(0).owner;
    EXPECT_TRUE(other.stop_program(cat(owner, "/trainer"), 0));
    EXPECT_EQ(other.status().programs.size(), 1u);
    client.close();
    other.close();
  });
}

}  // namespace
}  // namespace gangway
