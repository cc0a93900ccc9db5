#include "ir/plan/sequential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using testing::HasSubstr;

Plan two_calls() {
  Plan plan;
  plan.nodes = {{.name = "first", .at = "train.cc:7"}, {.name = "second", .at = "train.cc:9"}};
  return plan;
}

TEST(SequentialTest, NothingIsSequentialWhereAllNeedsAreKnownAhead) {
  const Plan plan = two_calls();
  EXPECT_FALSE(any_sequential(plan));
  EXPECT_FALSE(is_sequential(plan, plan.nodes[0]));
  EXPECT_EQ(why_sequential(plan), "");
}

TEST(SequentialTest, ANodeWhoseNeedsDependOnDataIsSequentialAndItsLineSaysWhere) {
  Plan plan = two_calls();
  plan.nodes[1].firing.late = true;
  EXPECT_TRUE(any_sequential(plan));
  EXPECT_FALSE(is_sequential(plan, plan.nodes[0]));
  EXPECT_TRUE(is_sequential(plan, plan.nodes[1]));
  EXPECT_THAT(why_sequential(plan),
              HasSubstr("node \"second\" at train.cc:9 needs depends on data"));
  plan.nodes[0].firing.rule.kind = FiringKind::kAny;
  EXPECT_THAT(why_sequential(plan),
              HasSubstr("node \"first\" at train.cc:7 and 1 more need depends"));
}

TEST(SequentialTest, AllNodesAreSequentialWhereTheProgramWasCompiledSo) {
  Plan plan = two_calls();
  plan.dispatch = Dispatch::kSequential;
  EXPECT_TRUE(is_sequential(plan, plan.nodes[0]));
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
