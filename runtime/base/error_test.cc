#include "runtime/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Error, PrintsMessageThenPlaceThenHint) {
  Error error(ErrorKind::kInvalid, "dot: sizes differ",
              {.program = "train_step", .node = "%14", .at = "model.cc:14"}, "transpose it");
  EXPECT_STREQ(error.what(),
               "dot: sizes differ\n  in program train_step, node %14\n  at model.cc:14\n"
               "  hint: transpose it");
}

TEST(Error, KeepsTheInnermostPlaceWhenSeenFromFurtherOut) {
  Error error(ErrorKind::kUnavailable, "gone", {.host = "h0"});
  error.add_where({.program = "p", .host = "h1"});
  EXPECT_EQ(error.where().host, "h0");
  EXPECT_EQ(error.where().program, "p");
}

TEST(Error, RequireThrowsInvalidWithTheCallersText) {
  try {
    GW_REQUIRE(1 == 2, "batch is ", 3, ", expected ", 4);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_EQ(error.message(), "batch is 3, expected 4");
  }
}

TEST(Error, AssertNamesTheExpressionAndItsLine) {
  try {
    GW_ASSERT(1 == 2);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    EXPECT_THAT(error.message(), testing::HasSubstr("1 == 2"));
    EXPECT_THAT(error.where().at, testing::HasSubstr("error_test.cc:"));
  }
}

}  // namespace
}  // namespace gangway
