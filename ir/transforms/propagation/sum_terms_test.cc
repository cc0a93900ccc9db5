#include "ir/transforms/propagation/sum_terms.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"

namespace gangway::sum_terms_test {
namespace {

const Mesh kMesh{{{"data", 2}}};
constexpr int kData = 0;
constexpr int kSummed = 2;  // The index of the factor that a product of two matrices sums.

// A graph with loops, and how its nodes are cut by now.
struct Loops {
  Function function;
  JointGraph joint;
  std::vector<Factors> factors;
  std::vector<std::vector<NodeCut>> cuts;

  explicit Loops(Builder& b)
      : function(b.build()),
        joint(function),
        factors(factors_of(joint)),
        cuts(joint.graph().nodes.size(), std::vector<NodeCut>(1)) {}
  Loops(const Loops&) = delete;  // The graph keeps a pointer to the function.

  NodeId node(Op op) const {
    for (NodeId id = 0; id < joint.graph().nodes.size(); ++id) {
      if (joint.graph().nodes[id].op == op && !joint.is_tie(id)) return id;
    }
    ADD_FAILURE() << "no " << to_string(op);
    return 0;
  }
  void cut(Op op, int factor) { cuts[node(op)][kData].factor = factor; }
  bool adds_only_terms(NodeId id) const {
    return SumTerms(joint, factors, cuts).adds_only_terms(id, kData);
  }
  // The answer for the first carry.
  bool adds_only_terms() const {
    for (NodeId id = 0; id < joint.graph().nodes.size(); ++id) {
      if (joint.tie(id) == JointGraph::TieKind::kCarry) return adds_only_terms(id);
    }
    ADD_FAILURE() << "no carry";
    return false;
  }
};

Tree rows(Builder& b) {
  Tree given;
  given.set("x", b.parameter("x", f32({8, 16}), {{"data", shard(0)}}));
  given.set("dy", b.parameter("dy", f32({8, 4}), {{"data", shard(0)}}));
  return given;
}

Value gradient_of(const Tree& given) { return dot(transpose(given["x"]), given["dy"]); }

// The scan of the header's example. `also_stacks`: it gives the scaled gradients to others too.
void add_gradients(Builder& b, bool also_stacks = false) {
  const Value total = b.parameter("total", f32({16, 4}));
  const ScanOperands operands{.length = 3, .carries = total, .invariants = rows(b)};
  const Scanned done = scan(b, operands, [&](const ScanStep& at) -> Scanned {
    const Value s = gradient_of(at.invariants) * 0.5;
    if (also_stacks) return {.carries = Value(at.carries) + s, .stacked = s};
    return {.carries = Value(at.carries) + s};
  });
  b.result("total", done.carries);
  if (also_stacks) b.result("all", done.stacked);
}

TEST(SumTerms, TheWorkedExampleOfTheHeaderHolds) {
  Builder b("step", kMesh);
  add_gradients(b);
  Loops loops(b);
  EXPECT_FALSE(loops.adds_only_terms()) << "nothing is cut yet";
  loops.cut(Op::dot, kSummed);
  EXPECT_TRUE(loops.adds_only_terms());
}

TEST(SumTerms, AValueThatTwoOperandsReadIsNoTerm) {
  Builder b("step", kMesh);
  add_gradients(b, /*also_stacks=*/true);
  Loops loops(b);
  loops.cut(Op::dot, kSummed);
  EXPECT_FALSE(loops.adds_only_terms());
}

TEST(SumTerms, ANodeThatIsCutOrWholePassesOnNoTerms) {
  for (int factor : {0, NodeCut::kWhole}) {
    Builder b("step", kMesh);
    add_gradients(b);
    Loops loops(b);
    loops.cut(Op::dot, kSummed);
    loops.cut(Op::mul, factor);
    EXPECT_FALSE(loops.adds_only_terms()) << factor;
  }
}

TEST(SumTerms, ACutOnAFactorThatResultsKeepGivesNoTerm) {
  Builder b("step", kMesh);
  add_gradients(b);
  Loops loops(b);
  loops.cut(Op::dot, 0);
  EXPECT_FALSE(loops.adds_only_terms());
}

TEST(SumTerms, OnlyACarryIsAddedTo) {
  Builder b("step", kMesh);
  add_gradients(b);
  Loops loops(b);
  loops.cut(Op::dot, kSummed);
  int carries = 0;
  for (NodeId id = 0; id < loops.joint.graph().nodes.size(); ++id)
    carries += loops.adds_only_terms(id);
  EXPECT_EQ(carries, 1);
}

// Gradients of two layers, which a loop stacks and a loop around it adds up over microbatches.
TEST(SumTerms, AStackOfTermsIsATermOfTheCarryAroundIt) {
  Builder b("step", kMesh);
  const Value total = b.parameter("total", f32({2, 16, 4}));
  const ScanOperands microbatches{.length = 3, .carries = total, .invariants = rows(b)};
  const Scanned done = scan(b, microbatches, [](const ScanStep& at) -> Scanned {
    const ScanOperands layers{
        .length = 2, .carries = at.builder.constant(f32({4}), 0), .invariants = at.invariants};
    const Scanned gradients = scan(at.builder, layers, [](const ScanStep& layer) -> Scanned {
      return {.carries = layer.carries, .stacked = gradient_of(layer.invariants)};
    });
    return {.carries = Value(at.carries) + Value(gradients.stacked)};
  });
  b.result("total", done.carries);
  Loops loops(b);
  EXPECT_FALSE(loops.adds_only_terms());
  loops.cut(Op::dot, kSummed);
  EXPECT_TRUE(loops.adds_only_terms());
}

// Whether the last node of the function passes on sums, given which parameters are sums.
bool passes(const std::function<Value(Value, Value)>& build, const std::set<ValueId>& sums) {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f32({8, 8})), y = b.parameter("y", f32({8, 8}));
  b.result("z", build(x, y));
  const Function f = b.build();
  return passes_sums(f, static_cast<NodeId>(f.nodes.size() - 1),
                     [&](ValueId value) { return sums.contains(value); });
}

TEST(SumTerms, SumsPassThroughWhatIsLinearInThem) {
  constexpr ValueId kX = 0, kY = 1;
  const auto add = [](Value x, Value y) { return x + y; };
  EXPECT_TRUE(passes(add, {kX, kY}));
  EXPECT_FALSE(passes(add, {kX})) << "y would be added once for each device";
  const auto mul = [](Value x, Value y) { return x * y; };
  EXPECT_TRUE(passes(mul, {kX}));
  EXPECT_TRUE(passes(mul, {kY}));
  EXPECT_FALSE(passes(mul, {kX, kY}));
  const auto div = [](Value x, Value y) { return x / y; };
  EXPECT_TRUE(passes(div, {kX}));
  EXPECT_FALSE(passes(div, {kY}));
}

TEST(SumTerms, SumsAreDoneBeforeWhatIsNotLinearOrGrowsThem) {
  constexpr ValueId kX = 0;
  EXPECT_TRUE(passes([](Value x, Value) { return neg(x); }, {kX}));
  EXPECT_FALSE(passes([](Value x, Value) { return neg(x); }, {})) << "there is no sum to pass on";
  EXPECT_FALSE(passes([](Value x, Value) { return exp(x); }, {kX}));
  EXPECT_FALSE(passes([](Value x, Value) { return convert(x, DType::kI32); }, {kX}));
  EXPECT_FALSE(passes([](Value x, Value) { return broadcast_to(x, {4, 8, 8}); }, {kX}));
}

}  // namespace
}  // namespace gangway::sum_terms_test
