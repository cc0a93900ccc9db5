// Tests of weeks_test.cc with many more lives.
#include "tests/piles/weeks.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(Weeks, AThousandLivesOfProgramsAndHostsLeaveNothingBehind) {
  const Weeks weeks = live(tests::test_seed(), 1000);
  EXPECT_EQ(weeks.problems, "");
  EXPECT_EQ(grown(weeks), "");
}

TEST(Weeks, AHundredControllersLeaveNothingBehind) {
  const Weeks weeks = restart(tests::test_seed(), 100);
  EXPECT_EQ(weeks.problems, "");
  EXPECT_EQ(grown(weeks), "");
}

}  // namespace
}  // namespace gangway
