// Whatever happens to a cluster, results that clients got from their programs are never taken back:
// histories of a number of seeds (scene.h) are checked against a sequential model (model.h).
#include <gtest/gtest.h>

#include "tests/sim/history/scene.h"
#include "tests/sim/history/seeds.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

class HistoryTest : public testing::TestWithParam<uint64_t> {};

TEST_P(HistoryTest, ReportedResultsAreNotTakenBackWhateverFails) {
  expect_range_fits(tests::test_seed() + GetParam() * kSeedsOfRange);
}

INSTANTIATE_TEST_SUITE_P(Range, HistoryTest,
                         testing::Range<uint64_t>(0, GW_HISTORY_SEEDS / kSeedsOfRange));

// 3: a controller that was to end brought a program back for ever; 186: it aborted where a program
// ended while it was resumed; 308, 388: readers were shown states that were not yet back.
TEST(HistoryOfASeedTest, HistoriesOfSeedsThatOnceFailedFitTheModel) {
  for (const uint64_t seed : {3, 186, 308, 388}) {
    const SceneReport report = play(seed);
    EXPECT_TRUE(report.problems.empty()) << "seed " << seed << ": " << to_string(report);
  }
}

TEST(HistoryOfASeedTest, TheHistoryOfASeedIsTheSameEachTime) {
  for (uint64_t seed = tests::test_seed(), last = seed + 3; seed < last; ++seed) {
    const SceneReport report = play(seed);
    const SceneReport again = play(seed);
    EXPECT_EQ(report.history, again.history) << "seed " << seed;
    EXPECT_EQ(report.events, again.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gangway::history
