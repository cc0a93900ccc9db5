#include "ir/build/tree.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Glob, AStarStandsForAnyRunAlsoAnEmptyOne) {
  EXPECT_TRUE(matches("*.up", "layers.0.up"));
  EXPECT_TRUE(matches("layers.*.up", "layers.10.moe.up"));
  EXPECT_TRUE(matches("a*", "a"));
  EXPECT_TRUE(matches("*ab*ab", "abab"));
  EXPECT_FALSE(matches("*.up", "layers.0.upper"));
  EXPECT_FALSE(matches("up", "layers.0.up"));
}

TEST(Glob, BarsSeparateAlternatives) {
  EXPECT_TRUE(matches("*.up|*.down", "layers.0.down"));
  EXPECT_FALSE(matches("*.up|*.down", "layers.0.gate"));
  EXPECT_TRUE(matches("x|", ""));
}

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern, std::string(2000, 'a') + "b"));
}

}  // namespace
}  // namespace gangway
