#include "runtime/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace gangway {
namespace {

TEST(Result, HoldsAValueOrThrowsItsErrorWhenAskedForOne) {
  Result<int> good = 3;
  Result<int> bad = Error(ErrorKind::kLost, "gone");
  EXPECT_EQ(good.value(), 3);
  EXPECT_FALSE(bad.ok());
  try {
    bad.value();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLost);
  }
}

TEST(Result, CarriesMoveOnlyValuesAndNone) {
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
  EXPECT_EQ(*owner.take(), 5);
  EXPECT_TRUE(Result<void>().ok());
}

}  // namespace
}  // namespace gangway
