#include "controller/recovery/checkpoints.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(CheckpointsTest, NamesOfFoldersAreSafeAndNoTwoAlike) {
  EXPECT_EQ(Checkpoints::escaped("train-2_b"), "train-2_b");
  EXPECT_EQ(Checkpoints::escaped(".."), "%2E%2E");
  EXPECT_EQ(Checkpoints::escaped("a/b c"), "a%2Fb%20c");
  EXPECT_EQ(Checkpoints::escaped("a%2Fb"), "a%252Fb");
  EXPECT_EQ(Checkpoints::escaped("x~earlier"), "x%7Eearlier");
  const std::string a(256, '.'), b = std::string(255, '.') + "/";
  EXPECT_LE(Checkpoints::escaped(a).size(), 240u);
  EXPECT_NE(Checkpoints::escaped(a), Checkpoints::escaped(b));
}

}  // namespace
}  // namespace gangway
