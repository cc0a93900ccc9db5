#include "runtime/base/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace gangway {
namespace {

constexpr const char* kName = "GANGWAY_ENVIRONMENT_TEST";

TEST(EnvironmentTest, AVariableHasTheValueThatItIsSetTo) {
  setenv(kName, "a path", 1);
  EXPECT_EQ(environment_value(kName), "a path");
  unsetenv(kName);
  EXPECT_EQ(environment_value(kName), std::nullopt);
}

TEST(EnvironmentTest, AnEmptyVariableCountsAsUnset) {
  setenv(kName, "", 1);
  EXPECT_EQ(environment_value(kName), std::nullopt);
  unsetenv(kName);
}

}  // namespace
}  // namespace gangway
