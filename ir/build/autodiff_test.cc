#include "ir/build/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/transforms/rewrite/simplify.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"

namespace gangway::autodiff_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

TEST(Autodiff, FrozenValuesCostNothing) {
  auto nodes = [](bool frozen) {
    Builder b("f");
    Value x = b.parameter("x", f32({4, 4})), w = b.parameter("w", f32({4, 4}));
    Value loss = sum(dot(dot(x, w), w));
    std::vector<Value> wrt = {x};
    if (!frozen) wrt.push_back(w);
    for (const Value& grad : gradients(loss, wrt)) b.result("g", grad);
    return count(simplify(b.build()), Op::dot);
  };
  EXPECT_EQ(nodes(true), 2) << "dx alone: the loss's own products are not needed for it";
  EXPECT_EQ(nodes(false), 5) << "x.w once more, and one for each use of w";
}

TEST(Autodiff, ProductsGiveGradientsInTheOrderOfTheirOperands) {
  for (const int64_t contract : {0, 1}) {
    Builder b("f");
    Value x = b.parameter("x", f32({2, 3, 4})), w = b.parameter("w", f32({4, 4}));
    const Value y = dot_general(x, w, {{}, {}, {2}, {contract}});
    for (const Value& grad : gradients(sum(y), {x, w})) b.result("g", grad);
    EXPECT_EQ(count(b.build(), Op::transpose), 0) << contract;
  }
}

TEST(Autodiff, APowerOfZeroHasTheSlopeOfItsExponent) {
  Builder b("f");
  Value x = b.parameter("x", f32({3})), exponent = b.parameter("exponent", f32({3}));
  b.result("slope", gradients(sum(pow(x, exponent)), {x})[0]);
  const Literal zeros = filled(f32({3}), 0), exponents{f32({3}), {0, 1, 2}};
  EXPECT_THAT(interpret(b.build(), {zeros, exponents})[0].values, ElementsAre(0, 1, 0));
}

TEST(Autodiff, AnEmptyLossIsTheCallersError) {
  EXPECT_THROW(gradients(Value(), {}), Error);
  Builder b("f");
  Value x = b.parameter("x", f32());
  EXPECT_THROW(gradients(x, {Value()}), Error);
}

TEST(Autodiff, StopGradientCutsThePath) {
  Builder b("f");
  Value x = b.parameter("x", f32());
  Value grad = gradients(x * stop_gradient(x), std::vector<Value>{x})[0];
  b.result("g", grad);
  Function f = b.build();
  EXPECT_EQ(count(f, Op::add), 0) << "one path only, nothing to add up";
}

TEST(Autodiff, ALossThatIsNoScalarIsAnError) {
  Builder b("f");
  Value x = b.parameter("x", f32({2}));
  EXPECT_THROW(gradients(x, std::vector<Value>{x}), Error);
}

TEST(Autodiff, AnOpWithoutGradientIsNamedWithItsLine) {
  Builder b("f");
  Value x = b.parameter("x", f32({2}));
  Value loss = sum(sum_squares(x));
  AdamwState state{x, x, x};
  Value one = b.constant(f32(), 1);
  Value next = adamw(state, x, {one, one, one, one}, {}).p;
  try {
    gradients(sum(next) + loss, std::vector<Value>{x});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("adamw has no gradient"));
    EXPECT_THAT(error.what(), testing::HasSubstr("autodiff_test.cc:"));
  }
}

TEST(Autodiff, AuxiliaryOutputsPassThrough) {
  Builder b("f");
  Tree params;
  params.set("w", b.parameter("w", f32({3})));
  auto f = [](const Tree& p) { return std::make_pair(sum(square(p["w"])), Value(p["w"])); };
  auto [result, grads] = value_and_grad_aux(f)(params);
  EXPECT_TRUE(result.second.is(params["w"]));
  EXPECT_EQ(grads["w"].leaf().type(), f32({3}));
}

TEST(Autodiff, RematerialisedValuesAreComputedAgainBehindABarrier) {
  Builder b("f");
  Value x = b.parameter("x", f32({8}));
  Value y = remat(b, [&] { return exp(sin(x)); });
  Value grad = gradients(sum(y), std::vector<Value>{x})[0];
  b.result("g", grad);
  Function f = b.build();
  EXPECT_EQ(count(f, Op::exp), 2) << "once forward, once more backward";
  EXPECT_EQ(count(f, Op::barrier), 1);
  bool derived = false;
  for (const NodeInfo& info : f.infos) derived = derived || info.reason == Reason::kRematerialize;
  EXPECT_TRUE(derived);
}

Literal vector_of(std::vector<double> values) {
  return {f64({static_cast<int64_t>(values.size())}), std::move(values)};
}

TEST(Autodiff, GivesTheDerivativeOfAnEquation) {
  Builder b("f");
  Value x = b.parameter("x", f64({3}));
  Value loss = sum(x * x * x);
  b.result("g", gradients(loss, {x})[0]);
  EXPECT_THAT(interpret(b.build(), {vector_of({1, 2, 3})})[0].values, ElementsAre(3, 12, 27));
}

TEST(Autodiff, DifferentiatesTwice) {
  Builder b("f");
  Value x = b.parameter("x", f64({2}));
  Value slope = gradients(sum(x * x * x), {x})[0];
  b.result("g", gradients(sum(slope), {x})[0]);
  EXPECT_THAT(interpret(b.build(), {vector_of({1, 2})})[0].values, ElementsAre(6, 12));
}

TEST(Autodiff, ALeafThatTheLossDoesNotReadGetsZeros) {
  Builder b("f");
  Value x = b.parameter("x", f64({2})), y = b.parameter("y", f64({2}));
  b.result("g", gradients(sum(x), {y})[0]);
  EXPECT_THAT(interpret(b.build(), {vector_of({1, 2}), vector_of({3, 4})})[0].values,
              ElementsAre(0, 0));
}

TEST(Autodiff, DifferentiatesByIntermediateValues) {
  Builder b("f");
  Value x = b.parameter("x", f64({1}));
  Value y = x * 3;
  b.result("g", gradients(sum(y * y), {y})[0]);
  EXPECT_THAT(interpret(b.build(), {vector_of({2})})[0].values, ElementsAre(12));
}

TEST(Autodiff, StopGradientKeepsTheOtherPath) {
  Builder b("f");
  Value x = b.parameter("x", f64({1}));
  b.result("g", gradients(sum(x * stop_gradient(x * x)), {x})[0]);
  EXPECT_THAT(interpret(b.build(), {vector_of({3})})[0].values, ElementsAre(9));
}

TEST(Autodiff, TreesKeepTheirShapeAndAuxiliaryOutputsPassThrough) {
  Builder b("f");
  Tree params;
  params.child("layers").append(b.parameter("w", f64({1})));
  params.set("bias", b.parameter("bias", f64({1})));
  auto model = [](const Tree& p, Value scale) {
    Value y = (p["layers"][0] * p["bias"]) * scale;
    return std::pair(sum(y), y + 1);
  };
  Value scale = b.parameter("scale", f64({1}));
  auto [out, grads] = value_and_grad_aux(model)(params, scale);
  b.result("aux", out.second);
  b.result("w", grads["layers"][0]);
  b.result("bias", grads["bias"]);
  auto results = interpret(b.build(), {vector_of({2}), vector_of({3}), vector_of({5})});
  EXPECT_THAT(results[0].values, ElementsAre(31));
  EXPECT_THAT(results[1].values, ElementsAre(15));
  EXPECT_THAT(results[2].values, ElementsAre(10));
}

// Two layers; what is differentiated decides how many products the backward pass makes.
int dots_with(bool first, bool second) {
  Builder b("f");
  Value x = b.parameter("x", f32({2, 4}));
  Value w1 = b.parameter("w1", f32({4, 4})), w2 = b.parameter("w2", f32({4, 4}));
  Value loss = sum(dot(tanh(dot(x, w1)), w2));
  std::vector<Value> wrt;
  if (first) wrt.push_back(w1);
  if (second) wrt.push_back(w2);
  gradients(loss, wrt);
  return count(b.function(), Op::dot);
}

TEST(Autodiff, NoWorkIsDoneForFrozenState) {
  EXPECT_EQ(dots_with(true, true), 2 + 3);   // dw2, dh, dw1
  EXPECT_EQ(dots_with(false, true), 2 + 1);  // dw2
  EXPECT_EQ(dots_with(true, false), 2 + 2);  // dh, dw1
}

TEST(Autodiff, BackwardNodesNameTheirOrigin) {
  Builder b("f");
  Value x = b.parameter("x", f64({3}));
  Value loss = sum(exp(x));
  auto forward = static_cast<NodeId>(b.function().nodes.size());
  gradients(loss, {x});
  ASSERT_GT(b.function().nodes.size(), forward);
  for (NodeId id = forward; id < b.function().nodes.size(); ++id) {
    EXPECT_EQ(b.function().infos[id].reason, Reason::kGradient);
    EXPECT_LT(b.function().infos[id].origin, forward);
    EXPECT_THAT(line_of(b.function(), id), HasSubstr("autodiff_test.cc"));
  }
}

Function remat_function(bool with_region) {
  Builder b("f");
  Value x = b.parameter("x", f64({2, 3})), w = b.parameter("w", f64({3, 3}));
  auto layer = [&] { return tanh(dot(tanh(dot(x, w)), w)); };
  Value y = with_region ? remat(b, layer) : layer();
  Value loss = sum(y * y);
  b.result("loss", loss);
  b.result("dw", gradients(loss, {w})[0]);
  return b.build();
}

TEST(Autodiff, ARegionIsRecomputedOnceBehindBarriersAndGivesTheSameGradients) {
  Function plain = remat_function(false), remade = remat_function(true);
  EXPECT_EQ(count(plain, Op::tanh), 2);
  EXPECT_EQ(count(remade, Op::tanh), 4);
  EXPECT_EQ(count(remade, Op::barrier), 2);  // x and w
  Literal x{f64({2, 3}), {1, 2, 3, -1, 0.5, 0.25}};
  Literal w{f64({3, 3}), {0.1, 0.2, 0.3, -0.1, 0.4, 0.7, 0.6, -0.5, 0.2}};
  EXPECT_EQ(interpret(remade, {x, w}), interpret(plain, {x, w}));
}

TEST(Autodiff, TheBackwardPassReadsOnlyTheResultsOfARegion) {
  Function f = remat_function(true);
  std::vector<NodeId> maker = producers(f);
  ValueId y = 0;  // The region's result is what the loss reads.
  for (const Node& node : f.nodes) {
    if (node.region == 1) y = node.first_result;
  }
  for (const Node& node : f.nodes) {
    for (ValueId input : node.inputs) {
      if (node.region == 1 || maker[input] == kNone || f.nodes[maker[input]].region != 1) continue;
      EXPECT_EQ(input, y);
    }
  }
}

}  // namespace
}  // namespace gangway::autodiff_test
