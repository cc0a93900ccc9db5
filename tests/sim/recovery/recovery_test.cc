// Programs that go on by themselves when a host is lost, on virtual time: whenever it is lost,
// losses and states have the bits of an undisturbed program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/recovery/recovery_case.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Returns how often the programs of `seeds` seeds were brought back.
int expect_no_bit_changes(sim::RecoveryCase of, uint64_t seeds) {
  const std::vector<double> alone = sim::undisturbed_losses(of);
  int brought_back = 0;
  for (uint64_t seed = tests::test_seed(), last = seed + seeds; seed < last; ++seed) {
    of.seed = seed;
    const sim::Recovered result = sim::recover(of);
    EXPECT_EQ(result.losses, alone) << "seed " << seed;
    EXPECT_EQ(result.wrong, "") << "seed " << seed;
    brought_back += result.brought_back;
  }
  return brought_back;
}

TEST(RecoveryTest, AHostThatDiesAtAnyMomentChangesNoBit) {
  EXPECT_GT(expect_no_bit_changes({}, 100), 30);
}

TEST(RecoveryTest, SeveralHostsThatDieOneAfterAnotherChangeNoBit) {
  EXPECT_GT(expect_no_bit_changes({.hosts = 6, .deaths = 4, .within_ms = 4}, 30), 12);
}

// The links to it break at once, and its connection only ten seconds later.
TEST(RecoveryTest, AHostThatVanishesWhileItsPeersReportBrokenLinksChangesNoBit) {
  EXPECT_GT(expect_no_bit_changes({.vanish = true}, 30), 3);
}

TEST(RecoveryTest, AReaderOfTheStatesSeesEachVersionOnce) {
  EXPECT_GT(expect_no_bit_changes({.hosts = 4, .deaths = 2, .evaluates = true}, 30), 10);
}

TEST(RecoveryTest, StepsThatTheControllerEnqueuesGoOn) {
  EXPECT_GT(expect_no_bit_changes({.hosts = 4, .deaths = 2, .detached = true}, 20), 5);
}

TEST(RecoveryTest, AnElasticAxisShrinksToWhatIsLeft) {
  sim::RecoveryCase of{.hosts = 2, .come_back = false, .elastic = {"data"}, .in_double = true};
  const std::vector<double> alone = sim::undisturbed_losses(of);
  int shrunk = 0;
  for (uint64_t seed = tests::test_seed(), last = seed + 20; seed < last; ++seed) {
    of.seed = seed;
    const sim::Recovered result = sim::recover(of);
    EXPECT_EQ(result.wrong, "") << "seed " << seed;
    ASSERT_EQ(result.losses.size(), alone.size()) << "seed " << seed;
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(result.losses[i], alone[i], 1e-9);
    if (result.brought_back == 0) continue;
    ++shrunk;
    EXPECT_THAT(result.told, Contains(HasSubstr("with data = 2"))) << "seed " << seed;
  }
  EXPECT_GT(shrunk, 5);
}

TEST(RecoveryTest, AProgramWithWrittenStatesAndNoCheckpointIsNotRecoveredAndSaysWhy) {
  const sim::Recovered result =
      sim::recover({.seed = 3, .hosts = 2, .within_ms = 2, .writes_states = true});
  EXPECT_EQ(result.brought_back, 0);
  EXPECT_THAT(result.failed, HasSubstr("is gone"));
  EXPECT_THAT(result.told, Contains(HasSubstr("can't be brought back: its client has written "
                                              "states, and no checkpoint holds them")));
}

}  // namespace
}  // namespace gangway
