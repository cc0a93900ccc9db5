// Whatever happens to a cluster, results that clients got from their programs are never taken back:
// histories of a number of seeds (scene.h) are checked against a sequential model (model.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

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

// A seed draws the same scene everywhere. A sanitizer plays fewer seeds than these.
TEST(HistoryOfASeedTest, EachKindOfSceneIsDrawnBySomeSeed) {
  std::map<std::string, int> drawn;
  for (uint64_t seed = tests::test_seed(), end = seed + std::max<uint64_t>(GW_HISTORY_SEEDS, 200);
       seed < end; ++seed) {
    const Drawn scene = draw(seed);
    const bool has_losses = scene.losses > 0, has_restarts = scene.restarts > 0;
    for (const auto& [kind, is_drawn] : std::initializer_list<std::pair<const char*, bool>>{
             {"two programs", scene.programs > 1},
             {"a lost host", scene.losses == 1},
             {"several lost hosts", scene.losses > 1},
             {"a restart", scene.restarts == 1},
             {"two restarts", scene.restarts > 1},
             {"lost hosts and restarts", has_losses && has_restarts},
             {"neither", !has_losses && !has_restarts},
             {"lost hosts behind new states", scene.losses_wait_for_new_states},
             {"hosts that stand still", scene.hosts_stand_still},
             {"an elastic program", scene.is_elastic && has_losses},
             {"time limits", scene.has_limits},
             {"cancels", scene.has_cancels},
             {"new states", scene.has_new_states},
             {"releases", scene.releases},
             {"a client that detaches", scene.detaches},
             {"a suspended program", scene.suspends},
             {"readers", scene.is_read},
             {"faults", scene.has_faults},
             {"faults beside lost hosts", scene.has_faults && has_losses}})
      drawn[kind] += is_drawn ? 1 : 0;
  }
  for (const auto& [kind, count] : drawn) EXPECT_GT(count, 0) << kind;
}

// 3: a controller that was to end brought a program back for ever; 186: it aborted where a program
// ended while it was resumed; 308, 388: readers were shown states that were not yet back; 21260777:
// suspending a suspended program that had lost a host waited for ever.
TEST(HistoryOfASeedTest, HistoriesOfSeedsThatOnceFailedFitTheModel) {
  for (const uint64_t seed : {3, 186, 308, 388, 21260777}) {
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
