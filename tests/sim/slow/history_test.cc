// As history/history_test.cc, from many more seeds.
#include <gtest/gtest.h>

#include "tests/sim/history/scene.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

TEST(SlowHistoryTest, WhatWasToldIsNotTakenBackWhateverHappens) {
  const uint64_t first = tests::test_seed() + 1'000'000;
  for (uint64_t seed = first; seed < first + 4000; ++seed) {
    const SceneReport report = play(seed, drawn_today());
    EXPECT_TRUE(report.problems.empty()) << "seed " << seed << ": " << to_string(report);
    if (!report.problems.empty()) return;
  }
}

}  // namespace
}  // namespace gangway::history
