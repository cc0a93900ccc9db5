// Tests the passes on scans and calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/scan_model.h"
#include "tests/support/seed.h"

namespace gangway::body_pipeline_test {
namespace {

using ::testing::HasSubstr;

const Mesh kMesh{{{"data", 4}}};

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

TEST(BodyPipeline, AScanOverReplicatedValuesRunsWholeOnEachDevice) {
  const Function global = tests::scan_model_function({}, kMesh);
  const Compiled compiled = compile_function(global, {});
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, global);
  const auto devices = static_cast<size_t>(kMesh.devices());
  const auto results = interpret_local(*compiled.local.function,
                                       std::vector<std::vector<Literal>>(devices, arguments));
  for (const auto& of_device : results) EXPECT_EQ(of_device, interpret(global, arguments));
}

TEST(BodyPipeline, AScanOverASumOfPartsAddsThemUpFirst) {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f64({8, 2}), {{"data", shard(0)}});
  b.result("y", scan(b, {.length = 2, .carries = sum(x, {0})}, [](const ScanStep& at) -> Scanned {
                  return {.carries = square(Value(at.carries))};
                }).carries);
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(local, Op::all_reduce), 1);
  EXPECT_EQ(count(local, Op::scan), 1);
}

// The bodies of the first scan or call of the function.
const Function& body_of(const Function& function, int nth = 0) {
  for (const Node& node : function.nodes) {
    if ((node.op == Op::scan || node.op == Op::call) && nth-- == 0) return *node.body;
  }
  throw Error(ErrorKind::kBug, "the function has no such body");
}

// A stack of layers, of which weights are cut as `weights` says and the batch over "data".
Function layers(const Mesh& mesh, const AxisPlacements& up, const AxisPlacements& down,
                int64_t length = 3) {
  Builder b("f", mesh);
  const Value x = b.parameter("x", f64({8, 4}), {{"data", shard(0)}});
  Tree weights;
  weights.set("up", b.parameter("up", f64({length, 4, 8}), up));
  weights.set("down", b.parameter("down", f64({length, 8, 4}), down));
  const Tree all = weights;
  const auto loss = [&](const Tree& w, Value in) {
    const ScanOperands operands{.length = length, .carries = in, .stacked = w, .name = "layer"};
    const Value out = scan(b, operands, [](const ScanStep& at) -> Scanned {
                        const Value h = tanh(dot(at.carries, at.slices["up"]));
                        return {.carries = Value(at.carries) + dot(h, at.slices["down"])};
                      }).carries;
    return mean(square(out));
  };
  auto [value, grads] = value_and_grad(loss)(weights, x);
  b.result("loss", value);
  b.result("up'", grads["up"]);
  b.result("down'", grads["down"]);
  return b.build();
}

TEST(BodyPipeline, ABatchIsCutThroughAllIterationsAndGradientsAreSummedInEach) {
  const Compiled compiled = compile_function(layers({{{"data", 2}}}, {}, {}), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.types[0], f64({4, 4}));
  EXPECT_EQ(count(body_of(local), Op::all_reduce), 0) << "forward";
  EXPECT_EQ(body_of(local).types[0], f64({4, 4}));
  EXPECT_EQ(count(body_of(local, 1), Op::all_reduce), 1) << "backward: both weights at once";
  EXPECT_EQ(count(local, Op::all_reduce), 1) << "the loss";
}

TEST(BodyPipeline, WeightsThatAreCutInTensorParallelTakeOneSumALayerEachWay) {
  const Compiled compiled = compile_function(
      layers({{{"data", 1}, {"model", 2}}}, {{"model", shard(2)}}, {{"model", shard(1)}}), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.types[1], f64({3, 4, 4}));
  EXPECT_EQ(count(body_of(local), Op::all_reduce), 1);
  EXPECT_EQ(count(body_of(local, 1), Op::all_reduce), 1);
}

TEST(BodyPipeline, WeightsThatAreStoredInPartsAreGatheredInEachIteration) {
  const Function global = layers({{{"data", 2}}}, {{"data", shard(1)}}, {{"data", shard(1)}});
  const Compiled compiled = compile_function(
      global, {.result_placements = {{}, {{"data", shard(1)}}, {{"data", shard(1)}}}});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(local, Op::all_gather), 4) << "the first layer's, each way";
  EXPECT_EQ(count(body_of(local), Op::all_gather), 2);
  EXPECT_EQ(count(body_of(local, 1), Op::all_gather), 2) << "again, and not kept";
  EXPECT_EQ(count(body_of(local, 1), Op::reduce_scatter), 2);
}

// first + the sum of squares of x, row by row.
Function sum_over_rows(double first) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f64({6, 8}), {{"data", shard(1)}});
  const Value begin = b.constant(f64({}), first);
  const Scanned done =
      scan(b, {.length = 6, .carries = begin, .stacked = x}, [](const ScanStep& at) -> Scanned {
        return {.carries = Value(at.carries) + sum(square(at.slices), {0})};
      });
  b.result("y", done.carries);
  return b.build();
}

TEST(BodyPipeline, ACarryThatIsOnlyAddedToIsReducedOnceBehindTheLoop) {
  for (const double first : {0.0, 1.0}) {
    const Compiled compiled = compile_function(sum_over_rows(first), {});
    const Function& local = *compiled.local.function;
    EXPECT_EQ(count(body_of(local), Op::all_reduce), 0);
    EXPECT_EQ(count(local, Op::all_reduce), 1);
    EXPECT_EQ(count(local, Op::keep_first), first == 0 ? 0 : 1) << "zeros are the sum of zeros";
  }
}

// The sums of squares of the rows of x[microbatch, row, ...], stacked, added up over microbatches.
Function sums_of_stacks(bool also_read) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f64({4, 6, 8}), {{"data", shard(2)}});
  const Value zero = b.constant(f64({6}), 0.0);
  const auto row = [](const ScanStep& at) -> Scanned {
    return {.stacked = sum(square(at.slices), {0})};
  };
  const auto microbatch = [&](const ScanStep& at) -> Scanned {
    const Value rows = scan(at.builder, {.length = 6, .stacked = at.slices}, row).stacked;
    return {.carries = Value(at.carries) + rows, .stacked = also_read ? Tree(exp(rows)) : Tree()};
  };
  const Scanned done = scan(b, {.length = 4, .carries = zero, .stacked = x}, microbatch);
  b.result("y", done.carries);
  if (also_read) b.result("z", done.stacked);
  return b.build();
}

TEST(BodyPipeline, AStackThatIsOnlyAddedToASumIsReducedWithItBehindBothLoops) {
  const Compiled compiled = compile_function(sums_of_stacks(false), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(body_of(body_of(local)), Op::all_reduce), 0);
  EXPECT_EQ(count(body_of(local), Op::all_reduce), 0);
  EXPECT_EQ(count(local, Op::all_reduce), 1);
}

TEST(BodyPipeline, ASumOfStacksIsReducedOnceAlsoWhereItsReadersWantItCut) {
  const Compiled compiled =
      compile_function(sums_of_stacks(false), {.result_placements = {{{"data", shard(0)}}}});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(body_of(body_of(local)), Op::reduce_scatter), 0);
  EXPECT_EQ(count(body_of(local), Op::reduce_scatter), 0);
  EXPECT_EQ(count(local, Op::reduce_scatter), 1);
}

TEST(BodyPipeline, AStackThatAnIterationReadsTooIsReducedInEachIteration) {
  const Compiled compiled = compile_function(sums_of_stacks(true), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(body_of(body_of(local)), Op::all_reduce), 1);
  EXPECT_EQ(count(local, Op::all_reduce), 0);
}

TEST(BodyPipeline, ASumThatAnIterationReadsIsReducedInEachIteration) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f64({6, 8}), {{"data", shard(1)}});
  const Value zero = b.constant(f64({}), 0.0);
  const Scanned done =
      scan(b, {.length = 6, .carries = zero, .stacked = x}, [](const ScanStep& at) -> Scanned {
        return {.carries = tanh(Value(at.carries)) + sum(square(at.slices), {0})};
      });
  b.result("y", done.carries);
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(body_of(local), Op::all_reduce), 1);
  EXPECT_EQ(count(local, Op::all_reduce), 0);
}

TEST(BodyPipeline, AnAnnotationInsideABodyReachesOutOfIt) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f32({8}));
  const Scanned done = scan(b, {.length = 2, .carries = x}, [&](const ScanStep& at) -> Scanned {
    return {.carries = at.builder.shard(Value(at.carries) + 1.0, {{"data", shard(0)}})};
  });
  b.result("y", exp(Value(done.carries)));
  const Function global = b.build();
  const Function simplified = simplify(global);
  const Propagation found = propagate_shardings(simplified, {replicated(global.mesh)});
  EXPECT_EQ(found.shardings[simplified.results[0]], Sharding{shard(0)});
  EXPECT_EQ(found.bodies[0].shardings[0], Sharding{shard(0)});
  const Function& body = body_of(simplified);
  EXPECT_THAT(explain(simplified, found, 0, &body),
              HasSubstr("parameter \"carry\" of the body \"scan\" is shard(0) on data"));
  EXPECT_THAT(explain(simplified, found, simplified.results[0]), HasSubstr(", as annotated at "));
}

TEST(BodyPipeline, AFunctionThatTwoCallsNameIsCutInOneWayForBoth) {
  Builder f("square", Mesh{{{"data", 2}}});
  f.result("y", square(f.parameter("x", f32({8}))));
  const auto function = std::make_shared<const Function>(f.build());
  Builder b("g", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f32({8}), {{"data", shard(0)}});
  const Value y = b.parameter("y", f32({8}));
  b.result("x2", call(b, function, {x})[0]);
  b.result("y2", call(b, function, {y})[0]);
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.nodes[0].body, local.nodes.back().body);
  EXPECT_EQ(count(local, Op::shard_slice), 1);
}

}  // namespace
}  // namespace gangway::body_pipeline_test
