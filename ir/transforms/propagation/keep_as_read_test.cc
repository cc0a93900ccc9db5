#include "ir/transforms/propagation/keep_as_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/inspect/collectives.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr int64_t kLayers = 3;
const Mesh kMesh{{{"data", 2}, {"model", 4}}};
const AxisPlacements kByPosition = {{"model", shard(1)}};

struct Layers {
  bool remat = false;
  bool stored_in_parts = false;  // Weights are cut over "data" too (ZeRO-3).
  bool squared = false;          // Products are with squares of weights.
};

Value weight(const Layers& of, const Value& stored) { return of.squared ? square(stored) : stored; }

// Two products with tensor parallelism, between activations that are cut by position.
Value next_layer(const Layers& of, const ScanStep& at) {
  Value x = at.builder.shard(at.carries, kByPosition, 1);
  Value hidden = tanh(dot(tanh(x), weight(of, at.slices["up"])));
  return at.builder.shard(x + dot(hidden, weight(of, at.slices["down"])), kByPosition, 1);
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
  Value x = b.parameter("x", f32({8, 16, 32}), {{"data", shard(0)}});
  Tree p;
  p.set("up", parameter(b, of, "up", {kLayers, 32, 64}, 2, 1));
  p.set("down", parameter(b, of, "down", {kLayers, 64, 32}, 1, 2));
  const ScanOperands operands{.length = kLayers, .carries = x, .stacked = p, .name = "layers"};
  const Scanned done = scan(b, operands, [&](const ScanStep& at) -> Scanned {
    const auto next = [&] { return next_layer(of, at); };
    Value y = of.remat ? remat(at.builder, next) : next();
    return {.carries = y};
  });
  const Tree wanted = gradients(sum(square(Value(done.carries))), p);
  b.result("up", wanted["up"]);
  b.result("down", wanted["down"]);
  return b.build();
}

int64_t count(const Function& global, Op op, const std::string& axes) {
  int64_t times = 0;
  for (const CollectiveUse& use : collectives_of(*compile_function(global, {}).local.function))
    times += use.op == op && use.axes == axes ? use.times : 0;
  return times;
}

TEST(KeepAsRead, InputsOfProductsAreGatheredOnceForBothPasses) {
  const Function global = step({});
  EXPECT_EQ(count(global, Op::all_gather, "model"), (1 + 1) * kLayers);
  EXPECT_EQ(count(global, Op::reduce_scatter, "model"), (1 + 1) * kLayers);
}

TEST(KeepAsRead, ARematerialisedIterationGathersAgainWhatItComputesAgain) {
  EXPECT_EQ(count(step({.remat = true}), Op::all_gather, "model"), (1 + 1 + 1) * kLayers);
}

TEST(KeepAsRead, WhatIsMadeOfStoredTensorsIsGatheredForEachPassByItself) {
  const Function global = step({.stored_in_parts = true, .squared = true});
  EXPECT_EQ(count(global, Op::all_gather, "data"), (2 + 2) * kLayers);
  EXPECT_EQ(count(global, Op::all_gather, "model"), (1 + 1) * kLayers);
}

TEST(KeepAsRead, TheDecisionSaysWhatWouldHaveMoved) {
  const Function global = step({});
  std::vector<Sharding> parameters;
  for (const Parameter& parameter : global.parameters)
    parameters.push_back(canonical(kMesh, resolve(kMesh, parameter.placements)));
  const Propagation found = propagate_shardings(global, parameters);
  const auto forward =
      std::ranges::find_if(global.nodes, [](const Node& node) { return node.op == Op::scan; });
  std::vector<std::string> stacks;
  for (uint32_t r = 1; r < forward->results; ++r)
    stacks.push_back(explain(global, found, forward->first_result + r));
  // A device has 4 of the 8 rows, and gets 12 of the 16 positions: 4 x 12 x 32 x 4 bytes.
  EXPECT_THAT(stacks, testing::Contains(testing::AllOf(
                          HasSubstr("is replicate on model\n  because "),
                          HasSubstr("(kept as the forward pass reads it, which moves nothing)"),
                          HasSubstr("which would have moved 6.0 KiB in 1 conversion"))));
}

}  // namespace
}  // namespace gangway
