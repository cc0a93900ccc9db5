#include "programs/train/convert_floats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace gangway::programs {
namespace {

template <class To, class From>
To converted(FileDType from, From value, DType to) {
  To result;
  convert_floats(from, std::as_bytes(std::span(&value, 1)), to,
                 std::as_writable_bytes(std::span(&result, 1)));
  return result;
}

double of_half(uint16_t bits) { return converted<double>(FileDType::kF16, bits, DType::kF64); }
uint16_t to_bf16(double value) { return converted<uint16_t>(FileDType::kF64, value, DType::kBF16); }

TEST(ConvertFloatsTest, HalvesAreReadWithSubnormalsInfinitiesAndNan) {
  EXPECT_EQ(of_half(0x3c00), 1.0);
  EXPECT_EQ(of_half(0xc100), -2.5);
  EXPECT_EQ(of_half(0x7bff), 65504.0);
  EXPECT_EQ(of_half(0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(of_half(0x83ff), -std::ldexp(1023.0, -24));
  EXPECT_EQ(of_half(0x7c00), HUGE_VAL);
  EXPECT_TRUE(std::isnan(of_half(0x7e00)));
  EXPECT_TRUE(std::signbit(of_half(0x8000)));
}

TEST(ConvertFloatsTest, ToBf16RoundsOnceToNearestEven) {
  EXPECT_EQ(to_bf16(1.0), 0x3f80);
  EXPECT_EQ(to_bf16(-2.5), 0xc020);
  EXPECT_EQ(to_bf16(1.0 + 1.0 / 256), 0x3f80) << "a tie";
  EXPECT_EQ(to_bf16(1.0 + 3.0 / 256), 0x3f82) << "a tie";
  // A float would hold the tie in place of this value.
  EXPECT_EQ(to_bf16(1.0 + 1.0 / 256 + std::ldexp(1.0, -40)), 0x3f81);
  EXPECT_EQ(to_bf16(1.0 + 3.0 / 256 - std::ldexp(1.0, -40)), 0x3f81);
  EXPECT_EQ(to_bf16(1e39), 0x7f80);
  EXPECT_EQ(to_bf16(std::nan("")) & 0x7fc0, 0x7fc0);
}

TEST(ConvertFloatsTest, FloatsOfAnyTypeAreConvertedToAnyOther) {
  EXPECT_EQ(converted<float>(FileDType::kF16, uint16_t{0x3555}, DType::kF32), 0.333251953125f);
  EXPECT_EQ(converted<float>(FileDType::kF64, 1.0 / 3, DType::kF32), 1.0f / 3);
  EXPECT_EQ(converted<double>(FileDType::kBF16, uint16_t{0x3f81}, DType::kF64), 1.0 + 1.0 / 128);
  EXPECT_EQ(converted<uint16_t>(FileDType::kF32, 1.5f, DType::kBF16), 0x3fc0);
  EXPECT_EQ(converted<int32_t>(FileDType::kI32, int32_t{7}, DType::kI32), 7);
  for (const FileDType type : {FileDType::kF8E4M3, FileDType::kI32, FileDType::kBool})
    EXPECT_FALSE(is_convertible_float(type));
}

}  // namespace
}  // namespace gangway::programs
