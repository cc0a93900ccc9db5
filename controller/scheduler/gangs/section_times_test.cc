#include "controller/scheduler/gangs/section_times.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(SectionTimes, TheModelCountsUntilASectionWasMeasured) {
  SectionTimes times({100, 0, 300});
  EXPECT_EQ(times.total_ns(), 400);
  EXPECT_FALSE(times.is_known(0));
  EXPECT_TRUE(times.is_known(1)) << "it occupies no device";
  times.measured(0, 1, 250);
  EXPECT_TRUE(times.is_known(0));
  EXPECT_EQ(times.ns(0), 250);
  EXPECT_EQ(times.total_ns(), 550);
}

TEST(SectionTimes, AMeasuredTimeFollowsWhatIsMeasuredLater) {
  SectionTimes times({100});
  times.measured(0, 1, 1000);
  times.measured(0, 1, 2000);
  EXPECT_EQ(times.ns(0), 1250);
  for (int i = 0; i < 40; ++i) times.measured(0, 1, 2000);
  EXPECT_NEAR(static_cast<double>(times.ns(0)), 2000, 2);
  EXPECT_EQ(times.total_ns(), times.ns(0));
}

TEST(SectionTimes, TheTimeOfSeveralPositionsIsDividedAsTheModelSays) {
  SectionTimes times({100, 0, 300});
  times.measured(0, 3, 800);
  EXPECT_EQ(times.ns(0), 200);
  EXPECT_EQ(times.ns(1), 0);
  EXPECT_EQ(times.ns(2), 600);
}

TEST(SectionTimes, SomeMeasuredSectionsSayByHowMuchTheModelIsOffForTheOthers) {
  SectionTimes times(std::vector<int64_t>(20, 100));
  for (uint32_t p = 0; p < SectionTimes::kCalibrated; ++p) {
    EXPECT_FALSE(times.is_known(19));
    times.measured(p, p + 1, 350);
  }
  EXPECT_TRUE(times.is_known(19));
  EXPECT_FALSE(times.is_measured(19));
  EXPECT_EQ(times.ns(19), 350);
  EXPECT_EQ(times.total_ns(), 20 * 350);
}

TEST(SectionTimes, WholeRunsChangeAllPositionsAlikeAndLaterPartsGoOnFromThere) {
  SectionTimes times({100, 0, 300});
  times.measured(0, 3, 800);
  times.measured(0, 3, 1600);
  EXPECT_EQ(times.ns(0), 250);
  EXPECT_EQ(times.ns(1), 0);
  EXPECT_EQ(times.ns(2), 750);
  EXPECT_EQ(times.total_ns(), 1000);
  times.measured(0, 1, 650);
  EXPECT_EQ(times.ns(0), 350);
  EXPECT_EQ(times.ns(2), 750);
  EXPECT_EQ(times.total_ns(), 1100);
  times.measured(0, 3, 700);
  EXPECT_EQ(times.total_ns(), 1000);
  EXPECT_EQ(times.ns(0), 318);
}

TEST(SectionTimes, PositionsOfNoCostMayTakeTimeAllTheSame) {
  SectionTimes times({0, 0});
  times.measured(0, 2, 400);
  EXPECT_EQ(times.ns(0), 50) << "a quarter is new";
  EXPECT_EQ(times.total_ns(), 100);
}

}  // namespace
}  // namespace gangway
