#include "tests/sim/history/seeds.h"

#include <gtest/gtest.h>

#include "tests/sim/history/scene.h"

namespace gangway::history {

void expect_range_fits(uint64_t first) {
  size_t told = 0;
  int happened = 0;
  for (uint64_t seed = first; seed < first + kSeedsOfRange; ++seed) {
    const SceneReport report = play(seed);
    told += report.told;
    happened += report.lost + report.restarted;
    EXPECT_TRUE(report.problems.empty()) << "seed " << seed << ": " << to_string(report);
    if (!report.problems.empty()) return;
  }
  EXPECT_GT(told, 20 * kSeedsOfRange);
  EXPECT_GT(happened, 0);
}

}  // namespace gangway::history
