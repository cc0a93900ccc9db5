// Whatever happens to a cluster, what clients were told of their programs is never taken back: from
// a number of seeds (scene.h), what they were told is held against a sequential model (model.h).
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/history/scene.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

TEST(HistoryTest, WhatWasToldIsNotTakenBackWhateverHappens) {
  const uint64_t first = tests::test_seed();
  size_t told = 0;
  int lost = 0, restarted = 0;
  std::fprintf(stderr, "left out of what seeds draw:\n%s", left_out_today().c_str());
  for (uint64_t seed = first; seed < first + GW_HISTORY_SEEDS; ++seed) {
    const SceneReport report = play(seed, drawn_today());
    told += report.told;
    lost += report.lost;
    restarted += report.restarted;
    EXPECT_TRUE(report.problems.empty()) << "seed " << seed << ": " << to_string(report);
    if (!report.problems.empty()) return;
  }
  EXPECT_GT(told, 20u * GW_HISTORY_SEEDS);
  EXPECT_GT(lost + restarted, GW_HISTORY_SEEDS / 4);
}

TEST(HistoryTest, ASeedHasOneHistory) {
  for (uint64_t seed = tests::test_seed(), last = seed + 3; seed < last; ++seed) {
    const SceneReport report = play(seed, drawn_today());
    const SceneReport again = play(seed, drawn_today());
    EXPECT_EQ(report.history, again.history) << "seed " << seed;
    EXPECT_EQ(report.events, again.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gangway::history
