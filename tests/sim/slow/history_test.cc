// Tests of history/history_test.cc with many more seeds.
#include <gtest/gtest.h>

#include "tests/sim/history/seeds.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

constexpr uint64_t kSeeds = 4000;

class SlowHistoryTest : public testing::TestWithParam<uint64_t> {};

TEST_P(SlowHistoryTest, ReportedResultsAreNotTakenBackWhateverFails) {
  expect_range_fits(tests::test_seed() + 1'000'000 + GetParam() * kSeedsOfRange);
}

INSTANTIATE_TEST_SUITE_P(Range, SlowHistoryTest,
                         testing::Range<uint64_t>(0, kSeeds / kSeedsOfRange));

}  // namespace
}  // namespace gangway::history
