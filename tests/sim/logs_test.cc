// Logs of programs on virtual time: of a detached one, of one whose connection is cut, and of one
// that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/detached.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> texts(const ProgramLog& log) {
  std::vector<std::string> texts;
  for (const LoggedLine& line : log.lines) texts.push_back(line.text);
  return texts;
}

TEST(LogsTest, ADetachedProgramIsLoggedAndWhyItEndedIsKept) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client reader = cluster.connect("reader");
    {
      const Client first = cluster.connect("first", {.name = "trainer"});
      const Slice slice = first.allocate({.devices = 4});
      const Executable step = slice.compile(falling());
      step.repeat(100, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      first.log("off I go");
      first.detach();
    }
    pass(*reactor, 10'000 * kMillisecond);
    EXPECT_THAT(texts(reader.logs("trainer")),
                ElementsAre("its client has connected", "repeat of \"falling\" begins: 100 steps",
                            "off I go", "its client has gone, and it goes on without one",
                            "repeat of \"falling\" has ended after 100 of 100 steps"));
    const Client second = cluster.attach("second", {.name = "trainer"});
    second.log("back\nagain");
    second.close();
    const ProgramLog log = reader.logs("trainer", {.after = 5});
    EXPECT_THAT(texts(log), ElementsAre("a client has attached to it", "back", "again",
                                        "it has ended: it was closed; 100 runs were done"));
    EXPECT_TRUE(log.ended);
    EXPECT_EQ(log.last, 9u);
    reader.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(LogsTest, NoLineIsLostOrDoubledWhereConnectionsAreCut) {
  auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const auto quiet = [](const std::string&) {};
    const Client client = cluster.connect("client", {.name = "trainer", .on_warning = quiet});
    Rng rng(tests::test_seed());
    constexpr int kLines = 300;
    for (int i = 0; i < kLines; ++i) {
      client.log(cat("line ", i));
      pass(*reactor, static_cast<int64_t>(rng.below(60)) * kMillisecond);
      if (rng.chance(0.1)) cluster.network.break_connections("client");
    }
    pass(*reactor, 30'000 * kMillisecond);
    std::vector<std::string> said, expected;
    for (const LoggedLine& line : client.logs("trainer").lines) {
      if (line.of_program) said.push_back(line.text);
    }
    for (int i = 0; i < kLines; ++i) expected.push_back(cat("line ", i));
    EXPECT_EQ(said, expected);
    client.close();
  });
}

TEST(LogsTest, AFollowerGetsLinesAndTheEndSoonWithoutPolling) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", {.name = "trainer"});
    const Client reader = cluster.connect("reader");
    int64_t heard_ns = 0;
    int calls = 0;
    ProgramLog log = reader.logs("trainer");
    Fiber follows = reactor->spawn("follow", [&] {
      while (log.lines.empty() || log.lines.back().text != "at last") {
        ++calls;
        log = reader.logs("trainer",
                          {.program = log.program, .after = log.last, .wait_ms = kLogWaitMsMax});
      }
      heard_ns = reactor->clock().now_ns();
    });
    pass(*reactor, 3600'000 * kMillisecond);
    const int64_t said_ns = reactor->clock().now_ns();
    client.log("at last");
    follows.join();
    EXPECT_LT(heard_ns - said_ns, 10 * kMillisecond);
    EXPECT_GE(calls, 60) << "a call waits no longer than it asks to";
    EXPECT_LE(calls, 61);
    const auto next = [&] {
      return reader.logs("trainer",
                         {.program = log.program, .after = log.last, .wait_ms = kLogWaitMsMax});
    };
    Fiber ends = reactor->spawn("wait for the end", [&] { log = next(); });
    pass(*reactor, 100 * kMillisecond);
    const int64_t end_ns = reactor->clock().now_ns();
    client.close();
    ends.join();
    EXPECT_TRUE(log.ended);
    EXPECT_THAT(texts(log), ElementsAre(HasSubstr("it has ended: it was closed")));
    // A program that has ended writes no more lines.
    EXPECT_TRUE(next().ended);
    EXPECT_LT(reactor->clock().now_ns() - end_ns, 10 * kMillisecond);
    reader.close();
  });
}

TEST(LogsTest, ALostConnectionIsLogged) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client =
        cluster.connect("client", {.name = "trainer", .on_warning = [](const std::string&) {}});
    const Client reader = cluster.connect("reader");
    cluster.network.break_connections("client");
    pass(*reactor, 5000 * kMillisecond);
    EXPECT_THAT(texts(reader.logs("trainer")),
                Contains(HasSubstr("its client has lost the connection")));
    client.close();
    reader.close();
  });
}

TEST(LogsTest, CheckpointsALostHostAndTheRecoveryAreLogged) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  const TempDir root;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .checkpoint_folder = root.path().string()});
    const Client client =
        cluster.connect("client", {.name = "trainer", .on_warning = [](const std::string&) {}});
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(falling());
      slice.keep_checkpoints({.every = 5});
      const auto train = [&](int first, int end) {
        for (int i = first; i < end; ++i)
          step.run({{"lr", 0.5f}, {"step", static_cast<float>(i)}}).wait();
      };
      train(0, 5);
      pass(*reactor, 1000 * kMillisecond);
      cluster.kill(1);
      train(5, 8);
      pass(*reactor, 1000 * kMillisecond);
      EXPECT_THAT(
          texts(client.logs("trainer")),
          AllOf(Contains("a checkpoint of version 5 is written"),
                Contains(HasSubstr("host \"host-1\" was lost: the program goes back to version 5")),
                Contains("host \"host-1\" was lost: the program goes on on host-0, host-2")));
    }
    client.close();
  });
}

// Cuts a client's connection `cuts` times while it follows a log. Returns the number of fibers that
// are left.
int64_t fibers_left_by_cuts(int cuts) {
  int64_t left = 0;
  auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", {.name = "trainer"});
    const Client reader = cluster.connect("reader", {.on_warning = [](const std::string&) {}});
    ProgramLog log;
    Fiber follows = reactor->spawn(
        "follow", [&] { log = reader.logs("trainer", {.after = 1, .wait_ms = kLogWaitMsMax}); });
    pass(*reactor, 1000 * kMillisecond);
    const auto before = static_cast<int64_t>(reactor->live_fibers());
    for (int i = 0; i < cuts; ++i) {
      cluster.network.break_connections("reader");
      pass(*reactor, 5000 * kMillisecond);
    }
    left = static_cast<int64_t>(reactor->live_fibers()) - before;
    client.log("after the cuts");
    follows.join();
    EXPECT_THAT(texts(log), ElementsAre("after the cuts"));
    reader.close();
    client.close();
  });
  return left;
}

TEST(LogsTest, AFollowerContinuesAfterItsConnectionIsLost) { fibers_left_by_cuts(1); }

TEST(LogsTest, WaitsThatWereAskedForOverLostConnectionsDoNotStay) {
  EXPECT_LE(fibers_left_by_cuts(8), 3);
}

TEST(LogsTest, ALostHostAndFailedRunsAreLogged) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", {.name = "trainer"});
    const Client other = cluster.connect("other", {.name = "other"});
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(falling());
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      cluster.kill(1);
      EXPECT_THROW(step.run({{"lr", 0.5f}, {"step", 1.0f}}).wait(), Error);
      pass(*reactor, 1000 * kMillisecond);
    }
    const std::vector<std::string> lines = texts(client.logs("trainer"));
    ASSERT_THAT(lines, SizeIs(3));
    EXPECT_THAT(lines[1], HasSubstr("host \"host-1\" is gone: "));
    EXPECT_THAT(lines[2], AllOf(HasSubstr("a run has failed: "), HasSubstr("host-1")));
    EXPECT_THAT(texts(client.logs("other")), ElementsAre("its client has connected"))
        << "it had nothing there";
    client.close();
    other.close();
  });
}

}  // namespace
}  // namespace gangway
