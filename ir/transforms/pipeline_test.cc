#include "ir/transforms/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/build/autodiff.h"
#include "ir/build/initializer.h"
#include "ir/build/ops.h"
#include "ir/transforms/memory/plan_memory.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"

namespace gangway::pipeline_test {
namespace {

const Mesh kMesh{{{"data", 4}}};

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

// loss = mean((x . w + b)^2) with its gradients as results.
Function regression() {
  Builder b("regression", kMesh);
  Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  Value w = b.parameter("w", f32({16, 4}));
  Value c = b.parameter("c", f32({4}));
  Value loss = mean(square(dot(x, w) + c));
  std::vector<Value> grads = gradients(loss, {w, c});
  b.result("loss", loss);
  b.result("dw", grads[0]);
  b.result("dc", grads[1]);
  return b.build();
}

TEST(Pipeline, DataParallelGradientsMeetInOneAllReduce) {
  Compiled compiled = compile_function(regression(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.types[0], f32({2, 16})) << "the batch is cut in four";
  EXPECT_EQ(local.types[1], f32({16, 4})) << "weights are whole";
  EXPECT_EQ(count(local, Op::all_reduce), 1);
  EXPECT_EQ(count(local, Op::shard_slice), 0)
      << "cotangents of the mean are computed in place, cut";
  for (const Sharding& sharding : compiled.result_shardings) EXPECT_EQ(sharding, replicated(kMesh));
}

TEST(Pipeline, CutHeadsAreFewerHeadsOfTheSameSize) {
  Builder b("heads", Mesh{{{"data", 2}}});
  const AxisPlacements columns = {{"data", shard(2)}};
  Value q = b.parameter("q", f32({1, 8, 32}), columns);
  Value k = b.parameter("k", f32({1, 8, 32}), columns);
  Value v = b.parameter("v", f32({1, 8, 32}), columns);
  b.result("y", attention(q, k, v, {.heads = 4}));
  const Compiled compiled = compile_function(b.build(), {});
  for (const Node& node : compiled.local.function->nodes) {
    if (node.op == Op::attention) {
      EXPECT_EQ(node.attrs.integer("heads"), 2);
    }
  }
  EXPECT_EQ(count(*compiled.local.function, Op::attention), 1);
}

TEST(Pipeline, OneDeviceNeedsNoCollective) {
  Function function = regression();
  function.mesh = Mesh{{{"data", 1}}};
  EXPECT_EQ(count(*compile_function(function, {}).local.function, Op::all_reduce), 0);
}

TEST(Pipeline, ElementwiseWorkIsFused) {
  Builder b("chain");
  Value x = b.parameter("x", f32({64, 32}));
  Value row = b.parameter("row", f32({32}));
  b.result("y", tanh(x * 2.0 + row) * exp(-x));
  const auto compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  ASSERT_EQ(local.nodes.size(), 1u);
  EXPECT_EQ(local.nodes[0].op, Op::fusion);
  EXPECT_EQ(local.nodes[0].inputs.size(), 2u) << "the row is read in place, constants are inside";
}

TEST(Pipeline, AFusionWaitsForNothingItDoesNotNeed) {
  Builder b("sandwich");
  Value x = b.parameter("x", f32({4, 4}));
  Value a = exp(x);
  Value m = dot(a, a);  // Needs a before c can run.
  b.result("c", a + m);
  const auto compiled = compile_function(b.build(), {});
  EXPECT_EQ(count(*compiled.local.function, Op::fusion), 0);
}

TEST(Pipeline, StateIsWrittenBehindTheCommitPoint) {
  Builder b("step", kMesh);
  Value p = b.parameter("p", f32({8})), m = b.parameter("m", f32({8})),
        v = b.parameter("v", f32({8}));
  Value g = b.parameter("g", f32({8})), one = b.parameter("one", f32());
  AdamwState next = adamw({p, m, v}, g, {one, one, one, one}, {});
  b.result("p", next.p);
  b.result("m", next.m);
  b.result("v", next.v);
  b.result("norm", sum_squares(p));
  Compiled compiled = compile_function(b.build(), {.in_place = {{0, 0}, {1, 1}, {2, 2}}});
  const Function& local = *compiled.local.function;
  ASSERT_LT(compiled.local.commit_begin, local.nodes.size());
  EXPECT_EQ(local.nodes[compiled.local.commit_begin].op, Op::adamw);
  EXPECT_EQ(compiled.local.commit_begin, local.nodes.size() - 1) << "what only reads comes before";
}

TEST(Pipeline, SwappedStatesAreStagedBeforeEitherIsOverwritten) {
  Builder b("swap");
  Value a = b.parameter("a", f32({8})), c = b.parameter("c", f32({8}));
  b.result("a", c);
  b.result("c", a);
  Compiled compiled = compile_function(b.build(), {.in_place = {{0, 0}, {1, 1}}});
  EXPECT_EQ(compiled.local.commit_begin, 2u) << "two copies out";
  EXPECT_EQ(compiled.local.function->nodes.size(), 4u) << "two copies in";
}

TEST(Pipeline, RowsThatAreNeededWholeAreGathered) {
  Builder b("gather", kMesh);
  Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  b.result("y", cumsum(x, 0));
  const Compiled compiled = compile_function(b.build(), {});
  EXPECT_EQ(count(*compiled.local.function, Op::all_gather), 1);
}

TEST(Pipeline, ABroadcastThatTwoReadersWantCutDifferentlyIsMadeForEach) {
  Builder b("readers", kMesh);
  Value x = b.parameter("x", f32({8, 4}), {{"data", shard(0)}});
  Value row = b.parameter("row", f32({4}));
  b.result("cut", x * broadcast_to(row, {8, 4}));
  b.result("whole", cumsum(broadcast_to(row, {8, 4}), 0));
  const Compiled compiled = compile_function(b.build(), {});
  EXPECT_EQ(compiled.local.function->types[compiled.local.function->results[0]], f32({2, 4}));
  EXPECT_EQ(compiled.local.function->types[compiled.local.function->results[1]], f32({8, 4}));
}

// Values that differ in the global view may be equal on a device: they still have two buffers.
TEST(Pipeline, EveryResultHasABufferOfItsOwn) {
  const AxisPlacements rows = {{"data", shard(0)}};
  Builder b("results", kMesh);
  Value x = b.parameter("x", f32({1, 4}));
  Value y = b.parameter("y", f32({4, 4}), rows);
  Value spread = broadcast_in(x, {4, 4}, {0, 1});  // The identity on each device.
  b.result("spread", spread);
  b.result("z", spread + y);
  b.result("whole", b.constant(f32({1, 4}), 0));
  b.result("cut", b.constant(f32({4, 4}), 0));
  const Compiled compiled = compile_function(b.build(), {.result_placements = {{}, {}, {}, rows}});
  const Function& local = *compiled.local.function;
  const std::set<ValueId> results(local.results.begin(), local.results.end());
  EXPECT_EQ(results.size(), local.results.size());
  EXPECT_GE(*results.begin(), local.parameters.size()) << "a parameter's buffer is not a result's";
  plan_memory(compiled.local, nullptr);
}

// Sharded along `dim` over all devices.
Compiled initialiser(const StateSpec& spec, int64_t devices, int dim) {
  const Mesh mesh{{{"data", devices}}};
  const Function init = trace_initializer(spec, "w", 7, mesh, Loc::current());
  return compile_function(init, {.result_placements = {{{"data", shard(dim)}}}, .alone = true});
}

int64_t bytes_to_install(const Compiled& init) {
  const Function& local = *init.local.function;
  const auto no_scratch = [](const Function&, NodeId) { return int64_t{0}; };
  return local.types[local.results[0]].bytes() + plan_memory(init.local, no_scratch).arena_bytes;
}

TEST(Pipeline, TheMemoryToInstallAShardedStateFallsWithItsNumberOfDevices) {
  for (const Type& type : {f32({1024, 512}), bf16({1024, 512})}) {
    for (int dim : {0, 1}) {
      const StateSpec spec = normal(type, 0.02);
      const int64_t alone = bytes_to_install(initialiser(spec, 1, dim));
      EXPECT_GE(alone, type.bytes());
      for (int64_t devices : {2, 4, 8}) {
        const Compiled init = initialiser(spec, devices, dim);
        // The key and the deviation have some bytes, however the state is cut.
        EXPECT_NEAR(static_cast<double>(bytes_to_install(init)),
                    static_cast<double>(alone) / static_cast<double>(devices), 1024);
        EXPECT_EQ(count(*init.local.function, Op::shard_slice), 0);
      }
    }
  }
}

TEST(Pipeline, AnInitialiserThatLooksAtTheWholeTensorHasNoCollective) {
  StateSpec centered = normal(f32({8, 4}), 1);
  centered.init = [](Builder&, Value key, const Type& type) {
    const Value x = random_normal(key, type);
    return x - mean(x);
  };
  const Compiled init = initialiser(centered, 4, 0);
  for (const Node& node : init.local.function->nodes) EXPECT_FALSE(row(node.op).meets);
  EXPECT_EQ(count(*init.local.function, Op::shard_slice), 1) << "of the whole that each computed";
}

// Unreduced sums of floats alone pass on: indices, truncation and integer division are not linear.
TEST(Propagation, OnlyFloatsStayPartial) {
  Builder b("counts", kMesh);
  const AxisPlacements rows = {{"data", shard(0)}};
  Value x = b.parameter("x", f32({8}), rows), n = b.parameter("n", i32({8}), rows);
  Value w = b.parameter("w", f32({16})), table = b.parameter("table", f32({16, 2}));
  Value count = sum(n);
  b.result("quotient", count / 3);
  b.result("truncated", convert(sum(x), DType::kI32));
  b.result("flag", convert(sum(x), DType::kBool));
  b.result("window", dynamic_slice(w, count, 0, 4));
  b.result("row", scatter_add(reshape(count, {1}), reshape(w, {1, 16}), 3));
  b.result("taken", take(table, count));
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  const std::vector<NodeId> makers = producers(local);
  for (const Node& node : local.nodes) {
    if (node.op != Op::all_reduce) continue;
    for (ValueId input : node.inputs)
      EXPECT_EQ(local.nodes[makers[input]].op, Op::reduce_sum) << "summed before it is used";
  }
}

TEST(Propagation, TwoAxesCutADimensionOnlyInEqualParts) {
  Builder b("both", Mesh{{{"data", 2}, {"expert", 4}}});
  Value x = b.parameter("x", f32({12, 8}), {{"data", shard(0)}});
  Value y = b.parameter("y", f32({12, 8}), {{"expert", shard(0)}});
  b.result("z", x + y);
  const Compiled compiled = compile_function(b.build(), {});
  EXPECT_EQ(compiled.local.function->types[compiled.local.function->results[0]], f32({6, 8}))
      << "12 rows were cut in eight";
}

TEST(Pipeline, PaddedPartsReachOnlyOpsThatKeepZeros) {
  Builder b("padded", kMesh);
  Value x = b.shard(b.parameter("x", f32({10, 4})), {{"data", shard(0)}});
  b.result("y", exp(sin(x)));
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.types[local.results[0]], f32({10, 4})) << "results have no padding";
  const auto type_of = [&](Op op) {
    for (const Node& node : local.nodes) {
      if (node.op == op) return local.types[node.first_result];
    }
    return Type{};
  };
  EXPECT_EQ(type_of(Op::sin), f32({3, 4})) << "10 rows over 4 devices";
  EXPECT_EQ(type_of(Op::exp), f32({10, 4})) << "the exponential of padding is not zero";
}

// The collectives of a step of one layer, in order: y = x . w, and a step of AdamW on w. The batch
// is cut over `data`; `weight` and `moments` say how w and its moments are stored.
std::vector<std::string> collectives_of_step(const AxisPlacements& weight,
                                             const AxisPlacements& moments, int64_t batch) {
  Builder b("step", kMesh);
  Value x = b.parameter("x", f32({batch, 16}), {{"data", shard(0)}});
  Value w = b.parameter("w", f32({16, 16}), weight);
  Value m = b.parameter("m", f32({16, 16}), moments), v = b.parameter("v", f32({16, 16}), moments);
  b.set_priorities(w, std::vector<int>(weight.size(), 2));
  for (Value moment : {m, v}) b.set_priorities(moment, std::vector<int>(moments.size(), 2));
  Value one = b.parameter("one", f32());
  Value g = gradients(mean(square(dot(x, w))), {w})[0];
  AdamwState next = adamw({w, m, v}, g, {one, one, one, one}, {});
  b.result("w", next.p);
  b.result("m", next.m);
  b.result("v", next.v);
  const Compiled compiled = compile_function(b.build(), {.in_place = {{1, 0}, {2, 1}, {3, 2}}});
  std::vector<std::string> found;
  for (const Node& node : compiled.local.function->nodes) {
    if (row(node.op).family == OpFamily::kCollective && node.op != Op::shard_slice)
      found.push_back(cat(to_string(node.op), " of ", node.attrs.text("axes")));
  }
  return found;
}

TEST(Pipeline, WhereStatesAreStoredDecidesWhichCollectivesAStepTakes) {
  using Found = std::vector<std::string>;
  const AxisPlacements whole, cut = {{"data", shard(0)}};
  for (int64_t batch : {8, 4096}) {
    EXPECT_EQ(collectives_of_step(whole, whole, batch), Found{"all_reduce of data"});
    EXPECT_EQ(collectives_of_step(whole, cut, batch),
              (Found{"reduce_scatter of data", "all_gather of data"}))
        << "only the moments: the new weights are gathered";
    EXPECT_EQ(collectives_of_step(cut, cut, batch),
              (Found{"all_gather of data", "reduce_scatter of data"}))
        << "the weights too: they are gathered for use";
  }
}

TEST(Propagation, ExplainsItselfInTheWordsOfTheSource) {
  Function function = simplify(regression());
  Propagation propagation =
      propagate_shardings(function, {{shard(0)}, {replicate()}, {replicate()}});
  ValueId dw = function.results[1];
  std::string text = explain(function, propagation, dw);
  EXPECT_THAT(text, testing::HasSubstr("is partial on data"));
  EXPECT_THAT(text, testing::HasSubstr("parameter \"x\" is shard(0)"));
}

}  // namespace
}  // namespace gangway::pipeline_test
