#include "programs/bigram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

TEST(Bigram, SmoothsByAddingOneToEveryPair) {
  // train has "ba" twice and "ab" once: p(b|a) = 2/257, p(a|b) = 3/258.
  double expected = (std::log(257.0 / 2) + std::log(258.0 / 3)) / 2;
  EXPECT_DOUBLE_EQ(bigram_nats_per_byte("baba", "aba"), expected);
}

TEST(Bigram, UnseenBytesCostLog256) {
  EXPECT_DOUBLE_EQ(bigram_nats_per_byte("", "xyz"), std::log(256));
  EXPECT_DOUBLE_EQ(bigram_nats_per_byte("ababab", "\xff\xfe"), std::log(256));
}

TEST(Bigram, ARepeatedPairBecomesCheap) {
  std::string text(10000, 'a');
  EXPECT_LT(bigram_nats_per_byte(text, "aaaa"), 0.03);
}

TEST(Bigram, OneByteCannotBePredicted) { EXPECT_THROW(bigram_nats_per_byte("abc", "a"), Error); }

}  // namespace
}  // namespace gangway::programs
