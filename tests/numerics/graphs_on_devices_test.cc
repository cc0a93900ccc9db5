// Random graphs on CPU devices of two hosts give the results of the reference executor.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ir/text/text.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/lowered_functions.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"
#include "tests/support/stored_layers.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway::numerics {
namespace {

constexpr PlanId kPlan{1};
constexpr uint64_t kGraphs = 60;

// Calls `function` once, and returns its results, gathered.
std::vector<Literal> on_devices(Reactor& reactor, const Function& function,
                                const std::vector<Literal>& arguments, uint32_t hosts,
                                uint32_t devices, const CallContext& context = {}) {
  TestPlan t("graph", hosts, devices);
  const Compiled compiled = compile_function(function, context);
  std::vector<uint32_t> inputs, outputs;
  for (size_t p = 0; p < function.parameters.size(); ++p) {
    inputs.push_back(
        t.input(function.parameters[p].name, function.types[p], compiled.parameter_shardings[p]));
  }
  for (size_t r = 0; r < function.results.size(); ++r) {
    outputs.push_back(t.output(function.result_names[r], function.types[function.results[r]],
                               compiled.result_shardings[r]));
  }
  t.call("graph", t.function(function, context), inputs, outputs);
  TestHosts cluster(reactor, hosts, devices);
  cluster.install(kPlan, t.share());
  RunFrame request{.plan = kPlan, .run = RunId(1)};
  for (uint32_t p = 0; p < arguments.size(); ++p) {
    const ArrayId array(100 + p);
    cluster.put(array, kPlan, p, to_bytes(arguments[p]));
    request.arguments.push_back({p, array, {}});
  }
  for (size_t r = 0; r < outputs.size(); ++r) request.outputs.push_back(ArrayId(1000 + r));
  cluster.start(request);
  const Done done = cluster.wait(RunId(1));
  if (done.error) throw *done.error;
  std::vector<Literal> results;
  for (size_t r = 0; r < outputs.size(); ++r) {
    const Type& type = function.types[function.results[r]];
    results.push_back(from_bytes(
        type, cluster.get<std::byte>(ArrayId(1000 + r), static_cast<size_t>(type.bytes()))));
  }
  return results;
}

void expect_close(const Literal& got, const Literal& expected, double tolerance) {
  for (size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], expected.values[i],
                tolerance * std::max(1.0, std::abs(expected.values[i])))
        << "element " << i;
  }
}

TEST(GraphsOnDevices, RandomGraphsComputeWhatTheReferenceComputes) {
  const uint64_t seed = gangway::tests::test_seed();
  const auto reactor = Reactor::make_real();
  for (uint64_t graph = 0; graph < kGraphs; ++graph) {
    const DType dtype = graph % 2 == 0 ? DType::kF64 : DType::kF32;
    std::mt19937_64 random(seed + graph);
    const Function function =
        gangway::tests::random_batch_function(random, TestPlan::mesh_of(4), dtype);
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    const std::vector<Literal> whole = interpret(function, arguments);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + graph, " in ", to_string(dtype)));
    const std::vector<Literal> got = on_devices(*reactor, function, arguments, 2, 2);
    for (size_t r = 0; r < whole.size(); ++r) {
      SCOPED_TRACE(cat("result ", r, " \"", function.result_names[r], "\""));
      expect_close(got[r], whole[r], dtype == DType::kF64 ? 1e-11 : 2e-4);
    }
    if (HasFailure()) FAIL() << print(function, {.locations = false});
  }
}

TEST(GraphsOnDevices, LayersThatAreStoredInPartsAreGatheredAheadAndComputeTheSame) {
  const auto reactor = Reactor::make_real();
  std::mt19937_64 random(gangway::tests::test_seed());
  for (const bool reverse : {false, true}) {
    for (const int64_t length : {1, 2, 5}) {
      const Function function = gangway::tests::stored_layers(
          {.length = length, .reverse = reverse}, TestPlan::mesh_of(4));
      const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
      const std::vector<Literal> whole = interpret(function, arguments);
      const std::vector<Literal> got = on_devices(*reactor, function, arguments, 2, 2);
      for (size_t r = 0; r < whole.size(); ++r) {
        SCOPED_TRACE(cat("result ", function.result_names[r], " of ", length, " layers"));
        expect_close(got[r], whole[r], 1e-11);
      }
    }
  }
}

void expect_on_devices(Reactor& reactor, const Function& function,
                       const std::vector<Literal>& arguments, const CallContext& context) {
  const std::vector<Literal> whole = interpret(function, arguments);
  const std::vector<Literal> got = on_devices(reactor, function, arguments, 2, 2, context);
  for (size_t r = 0; r < whole.size(); ++r) {
    SCOPED_TRACE(cat("result ", r, " \"", function.result_names[r], "\""));
    expect_close(got[r], whole[r], function.types[0].dtype == DType::kF64 ? 1e-11 : 2e-4);
  }
}

TEST(GraphsOnDevices, AVocabularyIsCutOverDevices) {
  const auto reactor = Reactor::make_real();
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    std::mt19937_64 random(gangway::tests::test_seed());
    CallContext context;
    const Function function =
        vocabulary_model(TestPlan::mesh_of(4), {.of_words = {"data"}, .dtype = dtype}, context);
    expect_on_devices(*reactor, function, gangway::tests::random_arguments(random, function),
                      context);
  }
}

TEST(GraphsOnDevices, ASequenceIsCutOverDevices) {
  const auto reactor = Reactor::make_real();
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    for (const int64_t seq : {16, 20}) {  // 16 rows are dealt out in stripes, 20 are not.
      std::mt19937_64 random(gangway::tests::test_seed());
      CallContext context;
      const Function function = attention_layer(
          TestPlan::mesh_of(4), {.seq = seq, .of_seq = {"data"}, .dtype = dtype}, context);
      expect_on_devices(*reactor, function, gangway::tests::random_arguments(random, function),
                        context);
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
