#include "programs/train/earlier_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway::programs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EarlierNamesTest, MomentsWereNamedAfterAParameterAloneWithoutItsTree) {
  EXPECT_THAT(earlier_names("adamw.m.params.layers.0.w"), ElementsAre("adamw.m.layers.0.w"));
  EXPECT_THAT(earlier_names("adamw.v.params.w"), ElementsAre("adamw.v.w"));
  EXPECT_THAT(earlier_names("params.layers.0.w"), IsEmpty());
}

}  // namespace
}  // namespace gangway::programs
