// Tests of leases_test.cc with many more repetitions.
#include "tests/sim/leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(LeasesTest, NothingIsLostDoubledOrLeakedWhereConnectionsAreCut1000TimesUnderLoad) {
  const LeaseReport report = cut_under_load(tests::test_seed(), 1000);
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
  EXPECT_GT(report.away, 500);
}

TEST(LeasesTest, TenThousandShortLivedClientsLeaveNothing) {
  EXPECT_THAT(soak(tests::test_seed(), 10'000).problems, ::testing::IsEmpty());
}

}  // namespace
}  // namespace gangway
