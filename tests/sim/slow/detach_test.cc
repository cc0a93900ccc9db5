// Tests of ../detach_test.cc with many more seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/detached.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::IsEmpty;

TEST(SlowDetachTest, NothingIsLostOrLeakedWhereConnectionsBreak) {
  const DetachReport report = detach_under_faults(tests::test_seed(), 1000);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_GT(report.steps, 20'000);
}

}  // namespace
}  // namespace gangway
