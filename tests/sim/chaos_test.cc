// What clients may do, while things go wrong, from a number of seeds (chaos.h).
#include "tests/sim/chaos.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(ChaosTest, NothingIsLostRepeatedOrLeakedWhateverGoesWrong) {
  const uint64_t first = testing::test_seed();
  int runs = 0, done = 0;
  for (uint64_t seed = first; seed < first + GW_CHAOS_SEEDS; ++seed) {
    const ChaosReport report = chaos(seed);
    runs += report.runs;
    done += report.done;
    for (const std::string& problem : report.problems)
      ADD_FAILURE() << "seed " << seed << ", " << report.scene << problem;
    if (!report.problems.empty()) return;
  }
  // Most runs must get through, or there is nothing to see.
  EXPECT_GT(done, runs / 5) << runs;
  EXPECT_LT(done, runs);
}

// The first of so many seeds that finds it; else their number.
int seeds_to_find(const PlantedFrameBugs& planted) {
  constexpr int kSeeds = 300;
  const uint64_t first = testing::test_seed();
  for (int i = 0; i < kSeeds; ++i) {
    if (!chaos(first + static_cast<uint64_t>(i), planted).problems.empty()) return i;
  }
  return kSeeds;
}

TEST(ChaosTest, SomeSeedFindsFramesThatAreRepeatedFromOneTooLateAndGapsThatNobodySees) {
  EXPECT_LT(seeds_to_find({.resends_one_too_late = true, .ignores_gaps = true}), 300);
}

TEST(ChaosTest, SomeSeedFindsAcknowledgementsThatNeverCome) {
  EXPECT_LT(seeds_to_find({.acknowledges_nothing = true}), 300);
}

TEST(ChaosTest, ASeedRepeatsExactly) {
  const uint64_t seed = testing::test_seed();
  EXPECT_EQ(chaos(seed).replay_hash, chaos(seed).replay_hash);
  EXPECT_NE(chaos(seed).replay_hash, chaos(seed + 1).replay_hash);
}

}  // namespace
}  // namespace gangway
