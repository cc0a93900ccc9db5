#include "ir/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops.h"
#include "ir/transforms/simplify.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

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
  EXPECT_EQ(result.second, params["w"].leaf());
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

}  // namespace
}  // namespace gangway
