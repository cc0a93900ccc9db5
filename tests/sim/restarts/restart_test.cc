// Executors that outlive their controller: they wait for it, and register with the next one under
// the names that they had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "gangway.h"
#include "tests/sim/restarts/restarts.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::restarts_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program whose state fills most of the memory: no state of an earlier controller's program may
// be left.
Program counting(const Mesh& mesh) {
  ProgramBuilder b("counting", mesh);
  const Value w = b.state("w", zeros(f32({kMemory / 4 / 4})));
  const Value next = w + 1.0;
  b.update(w, next);
  b.output("first", sum(next, {0}));
  return b.build();
}

void train(Restarts& cluster, const std::string& name) {
  const Client client = cluster.connect(name);
  {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(counting(slice.mesh({{"data", 4}})));
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(step.run()["first"].item<float>(), static_cast<float>(i * (kMemory / 16)));
    }
  }
  client.close();
}

TEST(RestartTest, ExecutorsRegisterWithEachControllerUnderTheNamesThatTheyHad) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed() + seed});
    reactor->run([&] {
      Restarts cluster(*reactor);
      cluster.pass(100s);  // There is no controller.
      std::string first;
      for (int round = 0; round < 4; ++round) {
        cluster.start_controller();
        cluster.pass(8s);
        EXPECT_THAT(cluster.names(), ElementsAre("e", "e-2"));
        ASSERT_NE(cluster.executor(0).service(), nullptr);
        if (round == 0) first = cluster.executor(0).service()->name();
        EXPECT_EQ(cluster.executor(0).service()->name(), first);
        train(cluster, cat("trainer-", round));
        // The third controller ends in the middle of a run.
        std::optional<Client> running;
        if (round == 2) {
          running = cluster.connect("unlucky");
          const Slice slice = running->allocate({.devices = 4});
          slice.compile(counting(slice.mesh({{"data", 4}}))).run();
        }
        cluster.kill_controller();
        cluster.pass(std::chrono::seconds(round * 7));
      }
      cluster.pass(1s);
      EXPECT_EQ(cluster.executor(0).service(), nullptr);
      EXPECT_FALSE(cluster.executor(0).ended().ready());
    });
  }
}

TEST(RestartTest, AnExecutorThatMayNotWaitLongerSaysForHowLongItHasWaited) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor, {.limit_ms = 30'000});
    cluster.pass(20s);
    cluster.start_controller();
    cluster.pass(60s);
    EXPECT_FALSE(cluster.executor(1).ended().ready()) << "it has a controller";
    cluster.kill_controller();
    const int64_t since_ns = reactor->clock().now_ns();
    const Future<void> ended = cluster.executor(1).ended();
    const Error why = error_of([&] { ended.await(); });
    EXPECT_NEAR(static_cast<double>(reactor->clock().now_ns() - since_ns), 30e9, 2e9);
    EXPECT_EQ(why.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(why.what(), HasSubstr("no controller for 3"));
    EXPECT_THAT(why.what(), HasSubstr("nobody answers at sim:controller"));
  });
}

TEST(RestartTest, AnExecutorWaitsWhileItsUserHasAllTheConnectionsThatOneUserMayHave) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    ControllerOptions options;
    options.owner_bounds[static_cast<size_t>(OwnerResource::kConnections)] = 2;
    cluster.start_controller(nullptr, std::move(options));
    cluster.pass(20s);
    ASSERT_NE(cluster.executor(1).service(), nullptr);
    cluster.end_executor(1);
    const Client first = cluster.connect("first"), second = cluster.connect("second");
    cluster.start_executor(1);
    cluster.pass(30s);
    EXPECT_FALSE(cluster.executor(1).ended().ready()) << "it may be taken later";
    EXPECT_EQ(cluster.executor(1).service(), nullptr);
    first.close();
    cluster.pass(30s);
    EXPECT_NE(cluster.executor(1).service(), nullptr);
    second.close();
  });
}

TEST(RestartTest, AnExecutorStartedToEndWithItsControllerEndsWithIt) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor, {.is_ended_with_first = true});
    cluster.pass(20s);
    EXPECT_FALSE(cluster.executor(0).ended().ready()) << "it never had one";
    cluster.start_controller();
    cluster.pass(8s);
    EXPECT_NE(cluster.executor(0).service(), nullptr);
    cluster.kill_controller();
    cluster.executor(0).ended().await();
    EXPECT_EQ(cluster.executor(0).service(), nullptr);
  });
}

TEST(RestartTest, AnExecutorEndsAlsoInTheMomentInWhichItsControllerGoes) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    cluster.start_controller();
    cluster.pass(8s);
    cluster.kill_controller();
    cluster.end_executor(1);
    cluster.pass(1ms);
    cluster.end_executor(0);
  });
}

TEST_F(StateDirRestartTest, AControllerFindsTheNamesOfTheHostsThatTheOneBeforeItHad) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    cluster.start_controller(state());
    cluster.pass(8s);
    train(cluster, "trainer");
    std::optional<Client> running = cluster.connect("interrupted");
    const Slice slice = running->allocate({.devices = 1});
    const Client onlooker = cluster.connect("onlooker");
    EXPECT_EQ(onlooker.status().programs.size(), 2u);
    Client stopped = cluster.connect("stopped");
    static_cast<void>(stopped.allocate({.devices = 1}));
    EXPECT_TRUE(onlooker.stop_program("stopped", 0));
    cluster.kill_controller();
    EXPECT_EQ(state()->hosts().size(), 2u);
    cluster.start_controller(state());
    for (const char* name : {"e", "e-2"}) {
      const NamedHost* const host = cluster.host_names().find(name);
      ASSERT_NE(host, nullptr);
      EXPECT_TRUE(host->gone_at_ns.has_value());
      EXPECT_THAT(host->why_gone, HasSubstr("has not come back since the controller was started"));
    }
    cluster.pass(8s);
    EXPECT_THAT(cluster.names(), ElementsAre("e", "e-2"));
    EXPECT_FALSE(cluster.host_names().at("e").gone_at_ns.has_value());
    // A host that never comes back is forgotten, in the folder too.
    cluster.kill_controller();
    cluster.end_executor(1);
    cluster.start_controller(state());
    cluster.pass(8s);
    cluster.forget_lost_hosts();
    cluster.pass(1s);
    EXPECT_EQ(cluster.host_names().all().size(), 1u);
    cluster.kill_controller();
    EXPECT_EQ(state()->hosts().size(), 1u);
  });
  const std::string log = FolderTest::read(folder_ / "state/programs.jsonl");
  const auto line = [](const char* event, const char* program, const char* rest) {
    return cat("Z\",\"event\":\"", event, "\",\"owner\":\"[^\"]+\",\"program\":\"", program,
               "\",\"client\":[0-9]+", rest, "\\}\n");
  };
  EXPECT_THAT(log,
              ContainsRegex("^\\{\"gangway\":\"programs\",\"version\":1\\}\n"
                            "\\{\"time\":\"[-0-9T:.]+Z\",\"event\":\"controller began\"\\}\n"));
  EXPECT_THAT(log, ContainsRegex(line("began", "trainer", "")));
  EXPECT_THAT(log,
              ContainsRegex(line("ended", "trainer", ",\"why\":\"it was closed\",\"runs\":3")));
  EXPECT_THAT(log, ContainsRegex(line("ended", "interrupted",
                                      ",\"why\":\"its controller has ended\",\"runs\":0")));
  EXPECT_THAT(log, ContainsRegex(line("ended", "stopped",
                                      ",\"why\":\"[^\"]+ asked it to stop\",\"runs\":0")));
  EXPECT_THAT(log, Not(HasSubstr("onlooker")));
}

}  // namespace
}  // namespace gangway::restarts_test
