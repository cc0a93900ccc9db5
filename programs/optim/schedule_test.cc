#include "programs/optim/schedule.h"

#include <gtest/gtest.h>

namespace gangway::programs {
namespace {

TEST(CosineSchedule, WarmsUpLinearlyThenFallsToItsFinalShare) {
  CosineSchedule lr{.peak = 1.0, .warmup = 10, .steps = 110, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(lr(1), 0.1);
  EXPECT_DOUBLE_EQ(lr(10), 1.0);
  EXPECT_NEAR(lr(60), 0.55, 1e-12) << "half way between peak and end";
  EXPECT_NEAR(lr(110), 0.1, 1e-12);
  EXPECT_NEAR(lr(500), 0.1, 1e-12) << "stays at its end";
}

}  // namespace
}  // namespace gangway::programs
