#include "client/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/cat.h"

namespace gangway::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

TEST(LogLinesTest, ATextIsCutIntoItsLines) {
  LogLines lines;
  EXPECT_TRUE(lines.say("one"));
  EXPECT_FALSE(lines.say("two\nthree\n")) << "somebody sends";
  lines.say("\nfour\n\n");
  lines.say("");
  EXPECT_THAT(lines.take()->lines, ElementsAre("one", "two", "three", "", "four", "", ""));
  EXPECT_FALSE(lines.take());
  EXPECT_TRUE(lines.say("five")) << "nobody sends any more";
  EXPECT_EQ(lines.take()->first, 7u);
}

TEST(LogLinesTest, TheNewestLinesWaitAndGoACallsWorthAtATime) {
  LogLines lines;
  for (size_t i = 0; i < kLogLinesMax + 10; ++i) lines.say(cat("line ", i));
  size_t next = 10;
  while (const auto call = lines.take()) {
    EXPECT_EQ(call->first, next);
    EXPECT_LE(call->lines.size(), kLogLinesOfCallMax);
    for (const std::string& line : call->lines) EXPECT_EQ(line, cat("line ", next++));
  }
  EXPECT_EQ(next, kLogLinesMax + 10);
}

TEST(LogLinesTest, ALongLineIsCutOnce) {
  LogLines lines;
  lines.say(std::string(1 << 20, 'x'));
  const std::string line = lines.take()->lines.at(0);
  EXPECT_THAT(line, EndsWith("x... (cut: 1048576 bytes)"));
  EXPECT_LE(line.size(), kLogLineBytesMax) << "so the controller cuts it no more";
}

}  // namespace
}  // namespace gangway::internal
