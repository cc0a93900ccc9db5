#include "ir/transforms/memory/pack_intervals.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// Intervals of a training step: a layer's values live until its gradient is taken, in the reverse
// order; gradients and temporaries live for a few steps.
std::vector<LiveInterval> lives(size_t count, Rng& rng) {
  std::vector<LiveInterval> all;
  for (size_t i = 0; i < count; ++i) {
    const auto first = static_cast<uint32_t>(i);
    const auto last = static_cast<uint32_t>(i % 3 == 0 && i < count / 2 ? count - i : i + 2);
    all.push_back({static_cast<int64_t>(1 + rng.next_u64() % 16) * 256, first, last});
  }
  return all;
}

// The most that lives at one time.
int64_t least(const std::vector<LiveInterval>& intervals, uint32_t steps) {
  int64_t most = 0;
  std::vector<int64_t> change(steps + 1, 0);
  for (const LiveInterval& one : intervals) {
    change[one.first] += one.bytes;
    if (one.last + 1 < steps) change[one.last + 1] -= one.bytes;
  }
  for (int64_t live = 0; const int64_t by : change) most = std::max(most, live += by);
  return most;
}

TEST(PackIntervals, IntervalsThatLiveAtOneTimeNeverOverlapHoweverManyThereAre) {
  for (const size_t count : {kIntervalsComparedMax, kIntervalsComparedMax + 1000}) {
    Rng rng(tests::test_seed());
    std::vector<LiveInterval> all = lives(count, rng);
    const int64_t total = pack_intervals(all);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_LE(all[i].offset + all[i].bytes, total);
      ASSERT_EQ(all[i].offset % 256, 0);
      for (size_t j = 0; j < i; ++j) {
        const bool together = all[i].first <= all[j].last && all[j].first <= all[i].last;
        const bool apart = all[i].offset + all[i].bytes <= all[j].offset ||
                           all[j].offset + all[j].bytes <= all[i].offset;
        ASSERT_TRUE(!together || apart) << i << " and " << j << " of " << count;
      }
    }
    const auto bound = static_cast<double>(least(all, static_cast<uint32_t>(2 * count)));
    EXPECT_LT(static_cast<double>(total), 1.15 * bound) << count;
  }
}

}  // namespace
}  // namespace gangway
