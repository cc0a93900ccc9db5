// Resources that would pile up over weeks.
#include "tests/piles/weeks.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(Weeks, ClientsProgramsAndHostsThatComeAndGoLeaveNothingBehind) {
  const Weeks weeks = live(tests::test_seed(), 100);
  EXPECT_EQ(weeks.problems, "");
  EXPECT_GT(weeks.before.size(), 35u);
  EXPECT_EQ(grown(weeks), "");
}

TEST(Weeks, ControllersThatComeAndGoLeaveNothingBehind) {
  const Weeks weeks = restart(tests::test_seed(), 5);
  EXPECT_EQ(weeks.problems, "");
  EXPECT_EQ(grown(weeks), "");
}

}  // namespace
}  // namespace gangway
