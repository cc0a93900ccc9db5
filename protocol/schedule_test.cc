#include "protocol/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"

namespace gangway {
namespace {

using testing::HasSubstr;

template <class T>
T as(const std::vector<std::byte>& bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(T)));
  return value;
}

TEST(ScheduleTest, AConstantStaysAndALineGoesOn) {
  EXPECT_EQ(value_at(Schedule::constant(0.25), 0), 0.25);
  EXPECT_EQ(value_at(Schedule::constant(0.25), 1'000'000), 0.25);
  EXPECT_EQ(value_at(Schedule::linear(1, 1), 0), 1);
  EXPECT_EQ(value_at(Schedule::linear(1, 1), 999'999), 1'000'000);
  EXPECT_EQ(value_at(Schedule::linear(3, -0.5), 4), 1);
}

TEST(ScheduleTest, TheLastValueOfAListStays) {
  const Schedule list = Schedule::list({3, 1, 2});
  EXPECT_EQ(value_at(list, 0), 3);
  EXPECT_EQ(value_at(list, 2), 2);
  EXPECT_EQ(value_at(list, 3), 2);
  EXPECT_EQ(value_at(list, std::numeric_limits<int64_t>::max()), 2);
}

TEST(ScheduleTest, WarmUpRisesToThePeakAndTheCosineFallsToItsEnd) {
  const WarmupCosine form{.peak = 2, .warmup = 10, .steps = 110, .final_share = 0.1};
  const Schedule schedule = Schedule::warmup_cosine(form);
  EXPECT_EQ(value_at(schedule, 0), 0);
  EXPECT_EQ(value_at(schedule, 5), 1);
  EXPECT_EQ(value_at(schedule, 10), 2);
  EXPECT_NEAR(value_at(schedule, 60), 2 * 0.55, 1e-12);
  EXPECT_NEAR(value_at(schedule, 110), 0.2, 1e-12);
  EXPECT_EQ(value_at(schedule, 100'000), value_at(schedule, 110));
  WarmupCosine later = form;
  later.begin = 60;
  EXPECT_EQ(value_at(Schedule::warmup_cosine(later), 7), value_at(schedule, 67));
}

TEST(ScheduleTest, AScalarIsTheNearestValueOfItsElementType) {
  const ScheduledInput third{0, Schedule::constant(1.0 / 3)};
  EXPECT_EQ(as<float>(bytes_at(third, f32(), 0)), 1.0f / 3);
  EXPECT_EQ(as<double>(bytes_at(third, {DType::kF64, {}}, 0)), 1.0 / 3);
  const ScheduledInput count{0, Schedule::linear(7, 2)};
  EXPECT_EQ(as<int32_t>(bytes_at(count, {DType::kI32, {}}, 3)), 13);
  const ScheduledInput huge{0, Schedule::constant(1e30)};
  EXPECT_EQ(as<int32_t>(bytes_at(huge, {DType::kI32, {}}, 3)), std::numeric_limits<int32_t>::max());
  EXPECT_TRUE(std::isinf(as<float>(bytes_at({0, Schedule::constant(1e300)}, f32(), 3))));
}

TEST(ScheduleTest, AWholeNumberTypeRefusesFractionsAndCountsBeyondItsRange) {
  const auto refused = [](const Schedule& schedule, DType dtype, int64_t steps) {
    try {
      require_values("x", schedule, dtype, steps);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  const auto i32 = DType::kI32;
  EXPECT_EQ(refused(Schedule::linear(0, 1), i32, int64_t{1} << 30), "accepted");
  EXPECT_EQ(refused(Schedule::linear(0, 0.5), i32, 1), "accepted");
  EXPECT_THAT(refused(Schedule::linear(0, 0.5), i32, 2),
              HasSubstr("in step 1 can't be 0.5 in i32"));
  EXPECT_THAT(refused(Schedule::constant(0.5), i32, 1), HasSubstr("in step 0 can't be 0.5 in i32"));
  // Step 1 and the last step round to whole numbers; those between have fractions.
  const int64_t many = int64_t{1} << 30;
  EXPECT_THAT(refused(Schedule::linear(many, 1.0 / (many - 1)), i32, many), HasSubstr("in i32"));
  EXPECT_THAT(refused(Schedule::linear(0, 1e-30), i32, 3), HasSubstr("in i32"));
  EXPECT_EQ(refused(Schedule::linear(2147483640, 1), i32, 8), "accepted");
  EXPECT_THAT(refused(Schedule::linear(2147483640, 1), i32, 9),
              HasSubstr("in step 8 can't be 2147483648 in i32"));
  EXPECT_EQ(refused(Schedule::list({1, 2, 2.5}), i32, 2), "accepted");
  EXPECT_THAT(refused(Schedule::list({1, 2, 2.5}), i32, 3), HasSubstr("can't be 2.5 in i32"));
  EXPECT_THAT(refused(Schedule::warmup_cosine({}), i32, 1), HasSubstr("give fractions"));
  EXPECT_EQ(refused(Schedule::list({0, 1}), DType::kBool, 5), "accepted");
  EXPECT_THAT(refused(Schedule::linear(0, 1), DType::kBool, 3), HasSubstr("expected 0 or 1"));
  EXPECT_EQ(refused(Schedule::warmup_cosine({}), DType::kF32, 1), "accepted");
  EXPECT_EQ(refused(Schedule::constant(0.1), DType::kBF16, 1), "accepted");
}

TEST(ScheduleTest, BytesAreTheSameInEveryStep) {
  const std::vector<std::byte> bytes(12, std::byte{7});
  EXPECT_EQ(bytes_at({0, bytes}, f32({3}), 5), bytes);
}

TEST(ScheduleTest, SchedulesBeyondTheBoundsAreRefused) {
  EXPECT_THROW(require_schedule("x", Schedule::list({})), Error);
  EXPECT_THROW(require_schedule("x", Schedule::list(Schedule::List(kScheduleValuesMax + 1))),
               Error);
  require_schedule("x", Schedule::list(Schedule::List(kScheduleValuesMax)));
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(require_schedule("x", Schedule::warmup_cosine({.begin = kMax})), Error);
  EXPECT_THROW(require_schedule("x", Schedule::warmup_cosine({.warmup = -1})), Error);
  EXPECT_THROW(require_schedule("x", Schedule::warmup_cosine({.steps = kMax})), Error);
}

}  // namespace
}  // namespace gangway
