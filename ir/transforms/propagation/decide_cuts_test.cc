#include "ir/transforms/propagation/decide_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/transforms/propagation/cut_limits.h"
#include "ir/transforms/propagation/sum_terms.h"
#include "runtime/base/cat.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway::decide_cuts_test {
namespace {

using testing::ElementsAre;

const Mesh kMesh{{{"data", 2}, {"model", 2}}};
constexpr int kData = 0, kModel = 1;

struct Decided {
  Function function;
  JointGraph joint;
  std::vector<Factors> factors;
  Cuts cuts;

  explicit Decided(Builder& b) : function(b.build()), joint(function), factors(factors_of(joint)) {
    std::vector<Sharding> parameters;
    for (const Parameter& parameter : function.parameters)
      parameters.push_back(canonical(kMesh, resolve(kMesh, parameter.placements)));
    cuts = decide_cuts(joint, factors, annotations_of(graph(), parameters, {}));
  }
  Decided(const Decided&) = delete;  // The graph keeps a pointer to the function.

  const Function& graph() const { return joint.graph(); }
  std::string layout(ValueId value) const { return to_string(kMesh, cuts.layouts[value]); }
  // "dot data k": which op was cut by which axis along which factor, in the order of decisions.
  std::vector<std::string> decisions() const {
    std::vector<std::string> all;
    for (const ShardingDecision& taken : cuts.decisions) {
      const auto axis = static_cast<size_t>(taken.axis), factor = static_cast<size_t>(taken.factor);
      all.push_back(cat(to_string(graph().nodes[taken.node].op), " ", kMesh.axes[axis].name, " ",
                        factors[taken.node][factor].name));
    }
    return all;
  }
};

TEST(DecideCuts, TheWorkedExampleOfTheHeaderHolds) {
  Builder b("example", kMesh);
  const Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  const Value w1 = b.parameter("w1", f32({16, 64}), {{"model", shard(1)}});
  const Value w2 = b.parameter("w2", f32({64, 16}), {{"model", shard(0)}});
  const Value h = dot(x, w1), a = tanh(h), y = dot(a, w2);
  b.result("y", y);
  const ValueId at_h = h.id(), at_a = a.id(), at_y = y.id();
  const Decided decided(b);
  EXPECT_THAT(decided.decisions(), ElementsAre("dot data i", "dot model j", "tanh data i",
                                               "tanh model j", "dot data i", "dot model k"));
  EXPECT_EQ(decided.layout(at_h), "{data: shard(0), model: shard(1)}");
  EXPECT_EQ(decided.layout(at_a), "{data: shard(0), model: shard(1)}");
  EXPECT_EQ(decided.layout(at_y), "{data: shard(0)}");
}

TEST(DecideCuts, ElementwiseOpsComeFirstAndSumsLast) {
  Builder b("levels", kMesh);
  const Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  const Value w = b.parameter("w", f32({16, 4}));
  b.result("sum", sum(x, {0}));
  b.result("product", dot(x, w));
  b.result("elementwise", tanh(x));
  const std::vector<std::string> order = Decided(b).decisions();
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], "tanh data i");
  EXPECT_EQ(order[1], "dot data i");
  EXPECT_TRUE(order[2].starts_with("reduce_sum data")) << order[2];
}

TEST(DecideCuts, AConflictIsSettledWhenNothingElseMoves) {
  Builder b("conflict", kMesh);
  const Value x = b.parameter("x", f32({8, 8}), {{"data", shard(0)}});
  const Value y = b.parameter("y", f32({8, 8}), {{"data", shard(1)}});
  b.result("sum", x + y);
  b.result("other", tanh(y));
  const Decided decided(b);
  EXPECT_THAT(decided.decisions(), ElementsAre("tanh data j", "add data i"))
      << "i and j cost the same, and x asks first";
  const std::vector<RejectedCut>& rejected = decided.cuts.decisions[1].rejected;
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].from, y.id());
  EXPECT_EQ(rejected[0].cost.conversions, 1);
  EXPECT_FALSE(rejected[0].of_later_priority);
}

TEST(DecideCuts, NothingButTheUserPlacesAParameterOrWhatAConstrainNames) {
  Builder b("held", kMesh);
  const Value x = b.parameter("x", f32({8, 8}));
  const Value y = b.parameter("y", f32({8, 8}), {{"data", shard(0)}});
  const Value sum = x + y, whole = b.shard(sum, {{"data", replicate()}});
  b.result("z", neg(whole));
  const ValueId at_sum = sum.id(), at_whole = whole.id();
  const Decided decided(b);
  EXPECT_EQ(decided.layout(x.id()), "{}");
  EXPECT_EQ(decided.layout(at_sum), "{data: shard(0)}");
  EXPECT_EQ(decided.layout(at_whole), "{}");
  EXPECT_EQ(decided.cuts.nodes[1][kData].factor, NodeCut::kWhole);
  EXPECT_EQ(decided.cuts.nodes[1][kModel].factor, NodeCut::kOpen) << "it names data alone";
}

int64_t cuts_of(const Decided& of, ValueId value, int dim) {
  int64_t parts = 1;
  for (size_t axis = 0; axis < kMesh.axes.size(); ++axis) {
    const Placement& placed = of.cuts.layouts[value][axis];
    if (placed.kind == PlacementKind::kShard && placed.dim == dim) parts *= kMesh.axes[axis].size;
  }
  return parts;
}

// The operands and results of a node that ask for a factor along an axis, each with the factor.
using Asked = std::vector<std::pair<ValueId, size_t>>;
Asked asked_of(const Decided& of, NodeId id, size_t axis) {
  const Node& node = of.graph().nodes[id];
  Asked asked;
  const auto add = [&](ValueId value, const auto& dim_in) {
    const Placement& placed = of.cuts.layouts[value][axis];
    for (size_t f = 0; f < of.factors[id].size(); ++f) {
      if (placed.kind == PlacementKind::kShard && dim_in(of.factors[id][f]) == placed.dim)
        return void(asked.emplace_back(value, f));
    }
  };
  for (size_t i = 0; i < node.inputs.size(); ++i)
    add(node.inputs[i], [&](const Factor& factor) { return factor.input_dims[i]; });
  for (uint32_t r = 0; r < node.results; ++r)
    add(node.first_result + r, [&](const Factor& factor) { return factor.result_dims[r]; });
  return asked;
}

// The invariants of the header, at the end.
void expect_fixpoint(const Decided& of) {
  CutLimits limits(of.joint, of.factors, of.cuts.parts);
  SumTerms terms(of.joint, of.factors, of.cuts.nodes);
  for (NodeId id = 0; id < of.graph().nodes.size(); ++id) {
    SCOPED_TRACE(cat("node ", id, ", ", to_string(of.graph().nodes[id].op)));
    std::vector<int64_t> parts(of.factors[id].size(), 1);
    for (int axis : {kData, kModel}) {
      const NodeCut& cut = of.cuts.nodes[id][static_cast<size_t>(axis)];
      const Asked asked = asked_of(of, id, static_cast<size_t>(axis));
      if (cut.factor >= 0) {
        const auto factor = static_cast<size_t>(cut.factor);
        parts[factor] *= kMesh.axes[static_cast<size_t>(axis)].size;
        EXPECT_TRUE(std::ranges::count(asked, std::pair(cut.from, factor)) > 0) << "it was asked";
      } else if (cut.factor == NodeCut::kOpen && !terms.adds_only_terms(id, axis)) {
        for (const auto& [value, factor] : asked) {
          const int dim = of.cuts.layouts[value][static_cast<size_t>(axis)].dim;
          EXPECT_FALSE(limits.can_cut(id, static_cast<int>(factor), axis, cuts_of(of, value, dim)))
              << "it stayed open, though %" << value << " asks";
        }
      }
    }
    EXPECT_EQ(of.cuts.parts[id], parts);
  }
}

// A parameter that no axis, one or both cut, along two of its dimensions, at any priority.
Value any_parameter(Builder& b, Rng& rng, const char* name, const Type& type) {
  const int last = type.rank() - 1;
  const int first = last - static_cast<int>(rng.below(2));
  AxisPlacements placements;
  std::vector<int> priorities;
  const auto place = [&](const char* axis, int dim) {
    if (!rng.chance(0.6)) return;
    placements.emplace_back(axis, shard(dim));
    priorities.push_back(static_cast<int>(rng.below(3)));
  };
  place("data", first);
  place("model", first == last ? last - 1 : last);
  const Value parameter = b.parameter(name, type, placements);
  b.set_priorities(parameter, priorities);
  return parameter;
}

// Layers in a loop with a product behind it, and the gradients of all weights.
void build_any(Builder& b, Rng& rng) {
  const Value x = any_parameter(b, rng, "x", f32({8, 12}));
  Tree weights;
  weights.set("layers", any_parameter(b, rng, "layers", f32({3, 12, 12})));
  weights.set("last", any_parameter(b, rng, "last", f32({12, 6})));
  const ScanOperands operands{.length = 3, .carries = x, .stacked = weights["layers"]};
  const Scanned done = scan(b, operands, [](const ScanStep& at) -> Scanned {
    return {.carries = exp(dot(at.carries, at.slices)) + Value(at.carries)};
  });
  Value out = dot(done.carries, weights["last"]);
  if (rng.chance(0.5)) out = b.shard(out, {{"data", shard(static_cast<int>(rng.below(2)))}}, 1);
  gradients(sum(square(out)), weights).for_each([&](const std::string& name, Value gradient) {
    b.result(name, gradient);
  });
}

TEST(DecideCuts, TheInvariantsHoldAtTheEndWhateverIsAnnotated) {
  Rng rng(tests::test_seed());
  size_t decisions = 0;
  for (int round = 0; round < 100 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(cat("round ", round));
    Builder b("any", kMesh);
    build_any(b, rng);
    const Decided decided(b);
    expect_fixpoint(decided);
    decisions += decided.cuts.decisions.size();
  }
  EXPECT_GT(decisions, 1000u) << "annotations reach the graph";
}

}  // namespace
}  // namespace gangway::decide_cuts_test
