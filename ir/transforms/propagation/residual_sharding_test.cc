#include "ir/transforms/propagation/residual_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/inspect/collectives.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway::residual_sharding_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kKept = "(kept as the forward pass reads it, which moves nothing)";

constexpr int64_t kLayers = 3, kBatch = 8, kPositions = 16, kDim = 32;
const Mesh kMesh{{{"data", 2}, {"model", 4}}};
const AxisPlacements kByPosition = {{"model", shard(1)}};

struct Layers {
  bool remat = false;
  bool stored_in_parts = false;  // Weights are cut over "data" too (ZeRO-3).
  bool squared = false;          // Products are with squares of weights.
  bool mixed = false;            // A product follows on rows that positions can't cut.
  int times = 1;                 // Number of times that a layer does all this.
};

Value weight(const Layers& of, const Value& stored) { return of.squared ? square(stored) : stored; }

// Two products with tensor parallelism, between activations that are cut by position.
Value next_layer(const Layers& of, const ScanStep& at, const Value& before) {
  Value x = at.builder.shard(before, kByPosition, 1);
  Value hidden = tanh(dot(tanh(x), weight(of, at.slices["up"])));
  Value y = dot(hidden, weight(of, at.slices["down"]));
  if (of.mixed)
    y = reshape(dot(reshape(y, {kBatch * kPositions, kDim}), at.slices["mix"]), y.type().dims);
  return at.builder.shard(x + y, kByPosition, 1);
}

// f32[layers, rows, columns]
Value parameter(Builder& b, const Layers& of, const char* name, Dims dims, int cut, int stored) {
  if (!of.stored_in_parts) {
    Value whole = b.parameter(name, f32(std::move(dims)), {{"model", shard(cut)}});
    b.set_priorities(whole, {1});
    return whole;
  }
  Value part =
      b.parameter(name, f32(std::move(dims)), {{"model", shard(cut)}, {"data", shard(stored)}});
  b.set_priorities(part, {1, 2});
  return part;
}

Function step(const Layers& of) {
  Builder b("step", kMesh);
  Value x = b.parameter("x", f32({kBatch, kPositions, kDim}), {{"data", shard(0)}});
  Tree p;
  p.set("up", parameter(b, of, "up", {kLayers, kDim, 64}, 2, 1));
  p.set("down", parameter(b, of, "down", {kLayers, 64, kDim}, 1, 2));
  if (of.mixed) p.set("mix", b.parameter("mix", f32({kLayers, kDim, kDim})));
  const ScanOperands operands{.length = kLayers, .carries = x, .stacked = p, .name = "layers"};
  const Scanned done = scan(b, operands, [&](const ScanStep& at) -> Scanned {
    const auto next = [&] {
      Value y = at.carries;
      for (int i = 0; i < of.times; ++i) y = next_layer(of, at, y);
      return y;
    };
    return {.carries = of.remat ? remat(at.builder, next) : next()};
  });
  const Tree wanted = gradients(sum(square(Value(done.carries))), p);
  wanted.for_each([&](const std::string& name, Value gradient) { b.result(name, gradient); });
  return b.build();
}

// The collectives of a step; of those that move a tensor of this type alone, if given.
int64_t count(const Function& global, Op op, const std::string& axes,
              const std::optional<Type>& type = std::nullopt) {
  int64_t times = 0;
  for (const CollectiveUse& use : collectives_of(*compile_function(global, {}).local.function)) {
    if (use.op == op && use.axes == axes && (!type || std::ranges::count(use.tensors, *type) > 0))
      times += use.times;
  }
  return times;
}

Propagation propagated(const Function& global) {
  std::vector<Sharding> parameters;
  for (const Parameter& parameter : global.parameters)
    parameters.push_back(canonical(kMesh, resolve(kMesh, parameter.placements)));
  return propagate_shardings(global, parameters);
}

// Why each of the stacks lies as it does that the forward pass keeps.
std::vector<std::string> explained_stacks(const Function& global) {
  const Propagation found = propagated(global);
  const auto forward =
      std::ranges::find_if(global.nodes, [](const Node& node) { return node.op == Op::scan; });
  std::vector<std::string> stacks;
  for (uint32_t r = 1; r < forward->results; ++r)
    stacks.push_back(explain(global, found, forward->first_result + r));
  return stacks;
}

TEST(ResidualSharding, InputsOfProductsAreGatheredOnceForBothPasses) {
  const Function global = step({});
  EXPECT_EQ(count(global, Op::all_gather, "model"), (1 + 1) * kLayers);
  EXPECT_EQ(count(global, Op::reduce_scatter, "model"), (1 + 1) * kLayers);
}

TEST(ResidualSharding, ARematerialisedIterationGathersAgainWhatItComputesAgain) {
  EXPECT_EQ(count(step({.remat = true}), Op::all_gather, "model"), (1 + 1 + 1) * kLayers);
}

TEST(ResidualSharding, ValuesComputedFromStoredTensorsAreGatheredForEachPassByItself) {
  const Function global = step({.stored_in_parts = true, .squared = true});
  EXPECT_EQ(count(global, Op::all_gather, "data"), (2 + 2) * kLayers);
  EXPECT_EQ(count(global, Op::all_gather, "model"), (1 + 1) * kLayers);
}

TEST(ResidualSharding, ASumThatBothPassesReadAsTermsIsNotReduced) {
  const Function global = step({.mixed = true});
  const Type terms = f32({kBatch / 2, kPositions, kDim});
  EXPECT_EQ(count(global, Op::all_reduce, "model", terms), 0);
  EXPECT_EQ(count(global, Op::all_reduce, "data,model", f32({kDim, kDim})), kLayers)
      << "the gradient that is made of it is reduced";
  EXPECT_THAT(explained_stacks(global),
              Contains(AllOf(HasSubstr("is partial on model\n  because "), HasSubstr(kKept),
                             HasSubstr("which would have moved 12.0 KiB in 1 conversion"))));
}

TEST(ResidualSharding, TheDecisionSaysWhatWouldHaveMoved) {
  // A device has 4 of the 8 rows, and gets 12 of the 16 positions: 4 x 12 x 32 x 4 bytes.
  EXPECT_THAT(explained_stacks(step({})),
              Contains(AllOf(HasSubstr("is replicate on model\n  because "), HasSubstr(kKept),
                             HasSubstr("which would have moved 6.0 KiB in 1 conversion"))));
}

// A stack of products of two sums, of which the second is a stack of sums too: as long as that is
// reduced, products of the first alone are a sum that need not be done.
TEST(ResidualSharding, AValueThatIsNoSumAnyMoreIsNotReportedAsKept) {
  Builder b("f", kMesh);
  Tree given;
  given.set("x", b.parameter("x", f32({4, 8}), {{"model", shard(1)}}));
  given.set("w", b.parameter("w", f32({8, 4}), {{"model", shard(0)}}));
  const Value none = b.constant(f32({4, 4}), 0.0);
  const auto loop = [&](const Tree& stacks, const std::function<Value(const ScanStep&)>& body) {
    return scan(b, {.length = kLayers, .carries = none, .invariants = given, .stacked = stacks},
                [&](const ScanStep& at) -> Scanned {
                  return {.carries = at.carries, .stacked = body(at)};
                });
  };
  const auto sum_of = [](const ScanStep& at) {
    return dot(at.invariants["x"], at.invariants["w"]);
  };
  const Scanned sums = loop({}, sum_of);
  const Scanned products =
      loop(sums.stacked, [&](const ScanStep& at) { return sum_of(at) * neg(Value(at.slices)); });
  b.result("y", loop(products.stacked, [](const ScanStep& at) {
                  return neg(Value(at.slices));
                }).stacked);
  const Function global = b.build();
  const Propagation found = propagated(global);
  EXPECT_THAT(explain(global, found, Value(sums.stacked).id()),
              AllOf(HasSubstr("is partial on model"), HasSubstr(kKept)));
  const std::string why = explain(global, found, Value(products.stacked).id());
  EXPECT_THAT(why, HasSubstr("is replicate on model"));
  EXPECT_EQ(why.find(kKept), why.rfind(kKept)) << "of the first stack alone: " << why;
}

TEST(ResidualSharding, StepsGrowWithTheStacks) {
  const auto steps = [](int times) {
    const Function global = step({.times = times});
    EXPECT_EQ(count(global, Op::all_gather, "model"), (1 + 1) * kLayers * times);
    return propagated(global).steps;
  };
  EXPECT_LT(steps(100), 2.2 * static_cast<double>(steps(50)));
}

}  // namespace
}  // namespace gangway::residual_sharding_test
