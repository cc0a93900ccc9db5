#include "ir/transforms/propagation/conflict_cost.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/op_table/distributed_op.h"
#include "ir/transforms/propagation/joint_graph.h"

namespace gangway::conflict_cost_test {
namespace {

const Mesh kMesh{{{"data", 2}, {"model", 4}}};
constexpr int kData = 0, kModel = 1;

// A function, what is known of its layouts, and the costs of cutting its last node.
struct Known {
  Function function;
  std::vector<Factors> factors;
  std::vector<Sharding> layouts;
  ValueAxes stored;

  explicit Known(Builder& b)
      : function(b.build()),
        factors(factors_of(JointGraph(function))),
        layouts(function.types.size(), replicated(kMesh)),
        stored(function.types.size(), kMesh.axes.size()) {}

  void place(ValueId value, int axis, int dim) {
    layouts[value][static_cast<size_t>(axis)] = shard(dim);
  }
  void place_stored(ValueId value, int axis, int dim) {
    place(value, axis, dim);
    stored.insert(value, axis);
  }
  NodeId node() const { return static_cast<NodeId>(function.nodes.size() - 1); }
  // The index of the factor of this name.
  int factor(char name) const {
    for (size_t f = 0; f < factors[node()].size(); ++f) {
      if (factors[node()][f].name == name) return static_cast<int>(f);
    }
    ADD_FAILURE() << "no factor " << name;
    return 0;
  }
  CutCost cost(char name, int axis = kData) const {
    return ConflictCost(function, factors, layouts, stored).of(node(), axis, factor(name));
  }
};

void expect_cost(const CutCost& cost, int conversions, int stored, double bytes) {
  EXPECT_EQ(cost.conversions, conversions);
  EXPECT_EQ(cost.stored, stored);
  EXPECT_EQ(cost.bytes, bytes);
}

// y = dot(x, w): %2 = dot(%0, %1), with the factors i (rows of x), j (columns of w) and k.
constexpr ValueId kX = 0, kW = 1, kY = 2;
Known product(int64_t batch = 8) {
  Builder b("product", kMesh);
  const Value x = b.parameter("x", f32({batch, 64})), w = b.parameter("w", f32({64, 4096}));
  b.result("y", dot(x, w));
  return Known(b);
}

TEST(ConflictCost, TheWorkedExampleOfTheHeaderHolds) {
  Known known = product();
  known.place_stored(kX, kData, 0);
  known.place_stored(kW, kData, 0);
  expect_cost(known.cost('i'), 1, 1, 524'288);
  expect_cost(known.cost('k'), 1, 1, 512);
  EXPECT_TRUE(is_cheaper(known.cost('k'), known.cost('i')));
  EXPECT_FALSE(is_cheaper(known.cost('i'), known.cost('k')));
}

TEST(ConflictCost, AStoredTensorStaysHoweverManyBytesTheOtherHas) {
  for (int64_t batch : {8, 1 << 20}) {
    Known known = product(batch);
    known.place(kX, kData, 0);
    known.place_stored(kW, kData, 0);
    EXPECT_EQ(known.cost('i').stored, 1);
    EXPECT_EQ(known.cost('k').stored, 0);
    EXPECT_TRUE(is_cheaper(known.cost('k'), known.cost('i'))) << batch;
  }
}

TEST(ConflictCost, FewerConversionsWinWhateverTheyMove) {
  const CutCost one{.conversions = 1, .stored = 1, .bytes = 1e12};
  const CutCost two{.conversions = 2, .stored = 0, .bytes = 1};
  EXPECT_TRUE(is_cheaper(one, two));
  EXPECT_FALSE(is_cheaper(two, one));
  EXPECT_FALSE(is_cheaper(one, one));
}

TEST(ConflictCost, NothingMovesWhereAllLieAsTheFactorCutsThem) {
  Known known = product();
  for (char name : {'i', 'j', 'k'}) expect_cost(known.cost(name), 0, 0, 0);
  known.place_stored(kX, kData, 0);
  known.place(kY, kData, 0);
  expect_cost(known.cost('i'), 0, 0, 0);
}

TEST(ConflictCost, OnlyTheAxisInQuestionMovesAndOtherAxesMakeTensorsSmaller) {
  Known known = product();
  known.place_stored(kW, kData, 0);
  known.place_stored(kW, kModel, 1);
  expect_cost(known.cost('i'), 1, 1, 524'288 / 4.0);
  expect_cost(known.cost('j', kModel), 0, 0, 0);
}

TEST(ConflictCost, AResultIsCutAnewAndTheTermsOfASumAreScattered) {
  Known known = product();
  const double bytes = 8 * 4096 * 4;
  known.place(kY, kData, 1);
  expect_cost(known.cost('i'), 1, 0, bytes / 2 / 2);
  expect_cost(known.cost('j'), 0, 0, 0);
  expect_cost(known.cost('k'), 1, 0, bytes / 2);
}

TEST(ConflictCost, PartsOfAResultThatIsWholeAreTakenForNothing) {
  Known known = product();
  known.place(kY, kData, 1);
  known.factors[known.node()][static_cast<size_t>(known.factor('k'))].kind = FactorKind::kPass;
  expect_cost(known.cost('k'), 0, 0, 0);
}

TEST(ConflictCost, ALoweringThatSendsCountsAsOneConversion) {
  Builder b("loss", kMesh);
  const Value logits = b.parameter("logits", f32({8, 1024}));
  b.result("loss", cross_entropy(logits, b.parameter("labels", i32({8}))));
  Known known(b);
  const Node& node = known.function.nodes[known.node()];
  int lowered = 0;
  for (const Factor& factor : known.factors[known.node()]) {
    if (factor.distributed_op.empty()) continue;
    const std::vector<Type> inputs = input_types(known.function, node);
    const double sent = distributed_op_of(node.op, factor.distributed_op)
                            .sent_bytes({node.op, inputs, node.attrs, nullptr}, 4);
    EXPECT_GT(sent, 0);
    expect_cost(known.cost(factor.name, kModel), 1, 0, sent);
    ++lowered;
  }
  EXPECT_EQ(lowered, 1) << "the classes";
}

}  // namespace
}  // namespace gangway::conflict_cost_test
