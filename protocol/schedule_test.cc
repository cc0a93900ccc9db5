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
  EXPECT_EQ(refused(Schedule::linear(0, 1), DType::kBool, 2), "accepted");
  EXPECT_THAT(refused(Schedule::linear(0, 1), DType::kBool, 3), HasSubstr("expected 0 or 1"));
  EXPECT_EQ(refused(Schedule::constant(0.1), DType::kBF16, 1), "accepted");
}

TEST(ScheduleTest, BytesAreTheSameInEveryStep) {
  const std::vector<std::byte> bytes(12, std::byte{7});
  EXPECT_EQ(bytes_at({0, bytes}, f32({3}), 5), bytes);
}

}  // namespace
}  // namespace gangway
