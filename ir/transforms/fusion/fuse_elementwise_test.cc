#include "ir/transforms/fusion/fuse_elementwise.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::fuse_elementwise_test {
namespace {

const Mesh kOneDevice{{{"data", 1}}};

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

// Fuses as the pipeline does, and removes the nodes that were pulled into the chains.
Function fused(Function function, NodeId& commit_begin) {
  function.local = true;
  return remove_dead(fuse_elementwise(function, commit_begin), commit_begin);
}

Function fused(Function function) {
  auto end = static_cast<NodeId>(function.nodes.size());
  return fused(std::move(function), end);
}

TEST(FuseElementwise, AFusedFunctionComputesTheSameBits) {
  const uint64_t seed = tests::test_seed();
  int chains = 0;
  for (uint64_t graph = 0; graph < 200; ++graph) {
    std::mt19937_64 random(seed + graph);
    const DType dtype = graph % 2 == 0 ? DType::kF32 : DType::kF64;
    const Function function = simplify(tests::random_batch_function(random, kOneDevice, dtype));
    const std::vector<Literal> arguments = tests::random_arguments(random, function);
    const Function now = fused(function);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + graph));
    require_valid(now);
    ASSERT_EQ(interpret(now, arguments), interpret(function, arguments))
        << print(function, {.locations = false}) << print(now, {.locations = false});
    chains += count(now, Op::fusion);
  }
  EXPECT_GT(chains, 200);
}

TEST(FuseElementwise, AValueUsedInsideAndOutsideItsChainIsWrittenOnce) {
  Builder b("f");
  Value x = b.parameter("x", f32({4, 8}));
  Value y = exp(x);
  b.result("y", y);
  b.result("z", tanh(y));
  const Function now = fused(b.build());
  ASSERT_EQ(now.nodes.size(), 1u);
  EXPECT_EQ(now.nodes[0].results, 2u);
}

TEST(FuseElementwise, ChainsDoNotCrossTheCommitPoint) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  Value y = tanh(exp(x));
  b.result("y", sin(cos(y)));
  NodeId commit_begin = 2;
  const Function now = fused(b.build(), commit_begin);
  EXPECT_EQ(commit_begin, 1u);
  ASSERT_EQ(now.nodes.size(), 2u);
  EXPECT_EQ(now.nodes[0].body->nodes.size(), 2u);
}

TEST(FuseElementwise, ARowIsReadInPlaceButAnInnerBroadcastIsNot) {
  Builder b("f");
  Value x = b.parameter("x", f32({2, 3, 4}));
  Value row = b.parameter("row", f32({4})), inner = b.parameter("inner", f32({2, 4}));
  b.result("row", tanh(x * row));
  b.result("inner", tanh(x + broadcast_in(inner, {2, 3, 4}, {0, 2})));
  const Function now = fused(b.build());
  EXPECT_EQ(count(now, Op::broadcast), 1);
}

TEST(FuseElementwise, ChainsOfDifferentShapesStayApart) {
  Builder b("f");
  Value x = b.parameter("x", f32({4})), y = b.parameter("y", f32({8}));
  b.result("x", tanh(exp(x)));
  b.result("y", tanh(exp(y)));
  EXPECT_EQ(count(fused(b.build()), Op::fusion), 2);
}

TEST(FuseElementwise, NodesOfARegionMayBeFused) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  b.result("y", remat(b, [&] { return tanh(exp(x)); }));
  const Function now = fused(b.build());
  require_valid(now);
  EXPECT_EQ(count(now, Op::fusion), 1);
}

TEST(FuseElementwise, NoChainReadsMoreThanItsBound) {
  Builder b("f");
  Value total = b.parameter("p", f32({4}));
  for (size_t i = 0; i < 3 * kFusionOperandsMax; ++i)
    total = total + b.parameter("p" + std::to_string(i), f32({4}));
  b.result("total", total);
  const Function now = fused(b.build());
  EXPECT_GE(now.nodes.size(), 3u);
  for (const Node& node : now.nodes) EXPECT_LE(node.inputs.size(), kFusionOperandsMax);
}

}  // namespace
}  // namespace gangway::fuse_elementwise_test
