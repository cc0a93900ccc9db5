#include "runtime/base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace gangway {
namespace {

TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox(0, PhiloxBlock{0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, PhiloxBlock{~0u, ~0u, ~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox(0x299f31d0a4093822u, PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
      (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, GivesOneSequencePerSeed) {
  Rng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t draw = a.next_u64();
    EXPECT_EQ(draw, b.next_u64());
    differs |= draw != c.next_u64();
  }
  EXPECT_TRUE(differs);
}

TEST(Rng, ForkedStreamDoesNotDependOnWhatWasDrawn) {
  Rng fresh(7), used(7);
  for (int i = 0; i < 13; ++i) used.next_u32();
  EXPECT_EQ(fresh.fork(3).next_u64(), used.fork(3).next_u64());
  EXPECT_NE(fresh.fork(3).next_u64(), fresh.fork(4).next_u64());
}

TEST(Rng, BelowIsUniformOverItsRange) {
  Rng rng(1);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100'000; ++i) ++counts.at(rng.below(10));
  for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(Rng, UniformStaysInTheHalfOpenUnitInterval) {
  Rng rng(2);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
  EXPECT_LT(to_unit_float(~0u), 1.0f);
}

}  // namespace
}  // namespace gangway
