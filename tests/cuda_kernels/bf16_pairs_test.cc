// Tests how kernels round to bf16 where no card does it: to nearest, ties to even, as the
// instruction does (PTX ISA, cvt.rn.bf16.f32), and once, as a card's sums and products of pairs do.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "executor/devices/cuda/kernels/bf16_pair.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway::cuda {
namespace {

constexpr uint32_t kInfinityBits = 0x7f80, kSignBit = 0x8000;

float float_from(uint32_t bf16_bits) { return std::bit_cast<float>(bf16_bits << 16); }
// The absolute value. Infinity counts as one more step than the largest finite number.
double step_value(uint32_t bf16_bits) {
  return (bf16_bits & ~kSignBit) == kInfinityBits ? std::ldexp(1.0, 128)
                                                  : std::fabs(double{float_from(bf16_bits)});
}

// The bits of the nearer of the two neighbours, or of the even one if both are equally near. The
// choice is exact, since doubles have digits enough for the distances.
uint32_t nearest_even(double x) {
  const uint32_t sign = std::signbit(x) ? kSignBit : 0;
  const double size = std::fabs(x);
  uint32_t below = 0, above = kInfinityBits;  // Bits of positive numbers ascend as the numbers do.
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    (step_value(middle) <= size ? below : above) = middle;
  }
  const double down = size - step_value(below), up = step_value(above) - size;
  const bool goes_up = up < down || (up == down && below % 2 == 1);
  return sign | (goes_up || size >= step_value(kInfinityBits) ? above : below);
}

TEST(RoundingToBf16, IsToNearestTiesToEvenForEveryUpperHalf) {
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      const uint32_t got = narrow<bf16>(x).bits;
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(float_from(got))) << std::hex << upper << " " << lower;
      } else {
        const uint32_t want = std::isinf(x) ? upper : nearest_even(double{x});
        ASSERT_EQ(got, want) << std::hex << upper << " " << lower;
      }
      const BfPair pair = round_pair(x, -1.0f), other = round_pair(2.0f, x);
      ASSERT_EQ(pair.bits, 0xbf800000u | got);
      ASSERT_EQ(other.bits, got << 16 | 0x4000u);
    }
  }
}

// Draws numbers whose sums and products doubles hold exactly, and whose products are no subnormals.
uint32_t random_bits(Rng& rng) {
  const auto exponent = static_cast<uint32_t>(107 + rng.uniform() * 40);
  const auto digits = static_cast<uint32_t>(rng.uniform() * 128);
  return (rng.uniform() < 0.5 ? kSignBit : 0) | exponent << 7 | digits;
}

TEST(PairsOfBf16, SumsAndProductsAreRoundedOnce) {
  Rng rng(tests::test_seed(), 1);
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t a = random_bits(rng), b = random_bits(rng);
    const double x = double{float_from(a)}, y = double{float_from(b)};
    const BfPair left{a | b << 16}, right{b | a << 16};
    const auto both = [](double first, double second) {
      return nearest_even(first) | nearest_even(second) << 16;
    };
    ASSERT_EQ(op_add(left, right).bits, both(x + y, y + x)) << x << " + " << y;
    ASSERT_EQ(op_sub(left, right).bits, both(x - y, y - x)) << x << " - " << y;
    ASSERT_EQ(op_mul(left, right).bits, both(x * y, y * x)) << x << " * " << y;
    ASSERT_EQ(op_neg(left).bits, both(-x, -y));
    ASSERT_EQ(op_abs(left).bits, both(std::fabs(x), std::fabs(y)));
  }
}

TEST(PairsOfBf16, PartsAreTheirElements) {
  const BfPair pair{0xc0403f80u};
  EXPECT_EQ(part(pair, 0), 1.0f);
  EXPECT_EQ(part(pair, 1), -3.0f);
  EXPECT_EQ(twice(bf16{0x4040}).bits, 0x40404040u);
  EXPECT_EQ(part(Two<int32_t>{{3, 4}}, 1), 4);
}

}  // namespace
}  // namespace gangway::cuda
