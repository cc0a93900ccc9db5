#include "controller/scheduler/earlier_schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/error.h"

namespace gangway {
namespace {

TEST(EarlierScheduleTest, TheLastValueOfAListStays) {
  const EarlierSchedule list(EarlierSchedule::List{3, 1, 2});
  EXPECT_EQ(list.value_at(0), 3);
  EXPECT_EQ(list.value_at(2), 2);
  EXPECT_EQ(list.value_at(3), 2);
  EXPECT_EQ(list.value_at(std::numeric_limits<int64_t>::max()), 2);
}

TEST(EarlierScheduleTest, WarmUpRisesToThePeakAndTheCosineFallsToItsEnd) {
  const WarmupCosine form{.peak = 2, .warmup = 10, .steps = 110, .final_share = 0.1};
  const EarlierSchedule schedule(form);
  EXPECT_EQ(schedule.value_at(0), 0);
  EXPECT_EQ(schedule.value_at(5), 1);
  EXPECT_EQ(schedule.value_at(10), 2);
  EXPECT_NEAR(schedule.value_at(60), 2 * 0.55, 1e-12);
  EXPECT_NEAR(schedule.value_at(110), 0.2, 1e-12);
  EXPECT_EQ(schedule.value_at(100'000), schedule.value_at(110));
  WarmupCosine later = form;
  later.begin = 60;
  EXPECT_EQ(EarlierSchedule(later).value_at(7), schedule.value_at(67));
}

TEST(EarlierScheduleTest, ItsMemoryIsCountedWithTheValuesOfAList) {
  const EarlierSchedule cosine((WarmupCosine()));
  const EarlierSchedule list(EarlierSchedule::List(1000, 1.0));
  EXPECT_EQ(cosine.list_size(), 0u);
  EXPECT_EQ(list.list_size(), 1000u);
  EXPECT_EQ(list.bytes(), cosine.bytes() + 8000);
}

TEST(EarlierScheduleTest, SchedulesBeyondTheBoundsAreRefused) {
  const auto is_refused = [](const EarlierSchedule& schedule) {
    try {
      require_schedule("x", schedule);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const auto of_size = [](size_t size) { return EarlierSchedule(EarlierSchedule::List(size)); };
  EXPECT_TRUE(is_refused(of_size(0)));
  EXPECT_TRUE(is_refused(of_size(kScheduleValuesMax + 1)));
  EXPECT_FALSE(is_refused(of_size(kScheduleValuesMax)));
  EXPECT_FALSE(is_refused(EarlierSchedule(WarmupCosine{.steps = 5})));
  EXPECT_TRUE(is_refused(EarlierSchedule(WarmupCosine{.begin = kLargest})));
  EXPECT_TRUE(is_refused(EarlierSchedule(WarmupCosine{.warmup = -1})));
  EXPECT_TRUE(is_refused(EarlierSchedule(WarmupCosine{.steps = kLargest})));
}

}  // namespace
}  // namespace gangway
