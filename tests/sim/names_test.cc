// Names of programs: one for each live program of an owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

TEST(NamesTest, ANameThatALiveProgramHasIsRefusedUntilThatOneHasEnded) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client first = cluster.connect("a", {.name = "trainer"});
    EXPECT_EQ(first.name(), "trainer");
    pass(*reactor, 90'000'000'000);
    const Error error = error_of([&] { cluster.connect("b", {.name = "trainer"}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("the name \"trainer\" is taken: a program of "));
    EXPECT_THAT(error.what(), HasSubstr("has had it for 1 min 30 s"));
    EXPECT_THAT(error.hint(), HasSubstr("choose another name"));
    EXPECT_EQ(first.status().programs.size(), 1u);
    first.close();
    const Client second = cluster.connect("b", {.name = "trainer"});
    EXPECT_EQ(second.name(), "trainer");
    second.close();
  });
}

TEST(NamesTest, NamesThatNobodyChoseNeverClash) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client first = cluster.connect("a", {.name = "train", .number_name = true});
    const Client second = cluster.connect("b", {.name = "train", .number_name = true});
    const Client third = cluster.connect("c", {.name = "train", .number_name = true});
    EXPECT_EQ(first.name(), "train");
    EXPECT_EQ(second.name(), "train-2");
    EXPECT_EQ(third.name(), "train-3");
    second.close();
    const Client fourth = cluster.connect("d", {.name = "train", .number_name = true});
    EXPECT_EQ(fourth.name(), "train-2");
    for (const Client& client : {first, third, fourth}) client.close();
  });
}

// Whenever the connection breaks: a client that did not get the answer to its greeting, and greets
// again, does not find its own name taken.
TEST(NamesTest, AClientWhoseConnectionBreaksWhileItConnectsIsOneProgram) {
  int connected = 0;
  for (int64_t at_us = 0; at_us < 1000; at_us += 20) {
    auto reactor = Reactor::make_simulated({.seed = 3});
    reactor->run([&] {
      SimCluster cluster(*reactor);
      Fiber breaks = reactor->spawn("break", [&] {
        pass(*reactor, at_us * 1000);
        cluster.network.break_connections("a");
      });
      try {
        const Client client = cluster.connect("a", {.name = "trainer"});
        ++connected;
        EXPECT_EQ(client.name(), "trainer") << at_us;
        EXPECT_EQ(client.status().programs.size(), 1u) << at_us;
        client.close();
      } catch (const Error& error) {  // The cut came before both greetings.
        EXPECT_THAT(error.what(), HasSubstr("is it a Gangway process?")) << at_us;
      }
      breaks.join();
      pass(*reactor, 62'000'000'000);  // The client may have failed to close.
      EXPECT_EQ(cluster.controller.controller().counts().total(), 0u) << at_us;
    });
  }
  EXPECT_GT(connected, 30);
}

}  // namespace
}  // namespace gangway
