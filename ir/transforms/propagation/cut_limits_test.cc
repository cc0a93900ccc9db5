#include "ir/transforms/propagation/cut_limits.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"

namespace gangway::cut_limits_test {
namespace {

const Mesh kMesh{{{"data", 4}, {"model", 2}}};
constexpr int kData = 0, kModel = 1;

// A function of one node, and the parts that it is cut into by now.
struct Limited {
  Function function;
  JointGraph joint;
  std::vector<Factors> factors;
  std::vector<std::vector<int64_t>> parts;

  explicit Limited(Builder& b) : function(b.build()), joint(function), factors(factors_of(joint)) {
    for (const Factors& of_node : factors) parts.emplace_back(of_node.size(), 1);
  }
  Limited(const Limited&) = delete;  // The graph keeps a pointer to the function.

  bool can_cut(int factor, int axis, int64_t asked, NodeId id = 0) const {
    return CutLimits(joint, factors, parts).can_cut(id, factor, axis, asked);
  }
};

using Unary = Value (*)(Value);
bool can_cut_in_four(Unary op, int64_t size, int64_t asked) {
  Builder b("unary", kMesh);
  b.result("y", op(b.parameter("x", f32({size}))));
  return Limited(b).can_cut(0, kData, asked);
}
Value tanh_of(Value x) { return tanh(x); }
Value exp_of(Value x) { return exp(x); }

TEST(CutLimits, PartsAreUnequalOnlyAsTheTensorThatAsksIs) {
  EXPECT_TRUE(can_cut_in_four(tanh_of, 10, 4));
  EXPECT_FALSE(can_cut_in_four(tanh_of, 10, 1));
  EXPECT_TRUE(can_cut_in_four(tanh_of, 12, 1)) << "equal parts";
}

TEST(CutLimits, AnOpThatMakesNoZerosOfZerosHasEqualParts) {
  EXPECT_FALSE(can_cut_in_four(exp_of, 10, 4));
  EXPECT_TRUE(can_cut_in_four(exp_of, 12, 4));
}

TEST(CutLimits, NoPartIsEmptyForLackOfRows) { EXPECT_FALSE(can_cut_in_four(tanh_of, 3, 4)); }

TEST(CutLimits, AxesOfTwoOperandsMakeNoUnequalParts) {
  Builder b("sum", kMesh);
  b.result("z", b.parameter("x", f32({12})) + b.parameter("y", f32({12})));
  Limited limited(b);
  EXPECT_TRUE(limited.can_cut(0, kData, 4));
  limited.parts[0][0] = 4;
  EXPECT_FALSE(limited.can_cut(0, kModel, 2)) << "as y asks, which model cuts";
  EXPECT_TRUE(limited.can_cut(0, kModel, 8)) << "as a tensor asks that both cut";
}

TEST(CutLimits, AFactorThatTheOpNeedsWholeIsNotCut) {
  Builder b("softmax", kMesh);
  b.result("y", softmax(b.parameter("x", f32({8, 16}))));
  Limited limited(b);
  ASSERT_EQ(limited.factors[0].size(), 2u);
  EXPECT_TRUE(limited.can_cut(0, kData, 4));
  EXPECT_FALSE(limited.can_cut(1, kData, 4));
}

TEST(CutLimits, ATieOfALoopMayBeUnequal) {
  Builder b("loop", kMesh);
  const ScanOperands operands{.length = 3, .carries = b.parameter("x", f32({10}))};
  const Scanned done = scan(b, operands, [](const ScanStep& at) -> Scanned {
    return {.carries = exp(Value(at.carries))};
  });
  b.result("y", done.carries);
  Limited limited(b);
  int ties = 0, others = 0;
  for (NodeId id = 0; id < limited.joint.graph().nodes.size(); ++id) {
    EXPECT_EQ(limited.can_cut(0, kData, 4, id), limited.joint.is_tie(id)) << "node " << id;
    ++(limited.joint.is_tie(id) ? ties : others);
  }
  EXPECT_GE(ties, 1) << "the carry, and what a gradient would keep";
  EXPECT_EQ(others, 1) << "exp";
}

// tanh of f32[rows, 8], whose factors are given distributed ops that it does not have.
TEST(CutLimits, OnlyOneFactorWithALoweringIsCut) {
  Builder b("lowered", kMesh);
  b.result("y", tanh(b.parameter("x", f32({8, 8}))));
  Limited limited(b);
  limited.factors[0][0].distributed_op = "one";
  limited.factors[0][1].distributed_op = "other";
  EXPECT_TRUE(limited.can_cut(1, kModel, 2));
  limited.parts[0][0] = 4;
  EXPECT_FALSE(limited.can_cut(1, kModel, 2));
  limited.factors[0][1].distributed_op = {};
  EXPECT_TRUE(limited.can_cut(1, kModel, 2));
}

TEST(CutLimits, AFactorWithALoweringDividesTheDimensionThatItShares) {
  Builder b("shared", kMesh);
  b.result("y", tanh(b.parameter("x", f32({12}))));
  Limited limited(b);
  const auto factor = [](int64_t size) {
    return Factor{.name = 'i', .size = size, .input_dims = {0}, .result_dims = {0}};
  };
  limited.factors[0] = {factor(4), factor(2)};
  limited.parts[0] = {4, 1};
  EXPECT_TRUE(limited.can_cut(1, kModel, 2));
  limited.factors[0][1].distributed_op = "one";
  EXPECT_FALSE(limited.can_cut(1, kModel, 2)) << "8 parts of 12 rows";
  limited.parts[0] = {2, 1};
  EXPECT_TRUE(limited.can_cut(1, kModel, 2)) << "4 parts of 12 rows";
}

}  // namespace
}  // namespace gangway::cut_limits_test
