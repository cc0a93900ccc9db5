#include "ir/plan/sequential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using testing::HasSubstr;

TEST(SequentialTest, APlanIsDispatchedInParallelUnlessItsProgramWasCompiledOtherwise) {
  Plan plan;
  EXPECT_FALSE(is_sequential(plan));
  EXPECT_EQ(why_sequential(plan), "");
  plan.dispatch = Dispatch::kSequential;
  EXPECT_TRUE(is_sequential(plan));
  EXPECT_THAT(why_sequential(plan), HasSubstr("CompileOptions::dispatch"));
}

TEST(SequentialTest, DispatchHasNames) {
  EXPECT_EQ(dispatch_of("--dispatch", "parallel"), Dispatch::kParallel);
  EXPECT_EQ(dispatch_of("--dispatch", "sequential"), Dispatch::kSequential);
  try {
    dispatch_of("--dispatch", "serial");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--dispatch: expected \"parallel\" or \"sequential\""));
  }
}

}  // namespace
}  // namespace gangway
