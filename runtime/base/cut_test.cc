#include "runtime/base/cut.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(CutTest, AShortTextStaysAsItIs) { EXPECT_EQ(cut("abc", 3), "abc"); }

TEST(CutTest, ALongTextSaysThatItIsCut) { EXPECT_EQ(cut("abcd", 3), "abc... (cut: 4 bytes)"); }

TEST(CutTest, ACharacterOfSeveralBytesIsNotSplit) {
  EXPECT_EQ(cut("a\u00e9b", 2), "a... (cut: 4 bytes)");
  EXPECT_EQ(cut("\u20ac\u20ac", 5), "\u20ac... (cut: 6 bytes)");
}

TEST(CutTest, KeepsBytesThatAreNoUtf8) {
  EXPECT_EQ(cut(std::string(9, '\x80'), 8), std::string(5, '\x80') + "... (cut: 9 bytes)");
}

}  // namespace
}  // namespace gangway
