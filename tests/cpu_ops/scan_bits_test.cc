// A scan on the CPU device, from the global function through all passes, against the same layers
// unrolled: equal bits, also of gradients, and an arena that does not grow with its length.
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "tests/cpu_ops/run_on_cpu.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/scan_model.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using tests::scan_model_function;
using tests::ScanModel;

const Mesh kOneDevice{{{"data", 1}}};

LocalFunction compiled(const ScanModel& model) {
  return compile_function(scan_model_function(model, kOneDevice), {}).local;
}

void expect_same_bits(const LocalFunction& a, const LocalFunction& b, int threads) {
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, *a.function);
  const std::vector<Literal> x = run_on_cpu(a, arguments, threads);
  const std::vector<Literal> y = run_on_cpu(b, arguments, threads);
  ASSERT_EQ(x.size(), y.size());
  for (size_t r = 0; r < x.size(); ++r) {
    EXPECT_EQ(to_bytes(x[r]), to_bytes(y[r])) << a.function->result_names[r] << " of\n"
                                              << print(*a.function) << print(*b.function);
  }
}

TEST(ScanOnCpu, HasTheBitsOfTheUnrolledGraph) {
  for (DType dtype : {DType::kF64, DType::kF32}) {
    for (int64_t layers : {1, 2, 5}) {
      for (bool reverse : {false, true}) {
        const ScanModel scan{.dtype = dtype, .layers = layers, .reverse = reverse};
        ScanModel remat = scan, unrolled = scan;
        remat.remat = true;
        unrolled.form = ScanModel::Form::kUnrolled;
        expect_same_bits(compiled(scan), compiled(unrolled), 1);
        expect_same_bits(compiled(remat), compiled(unrolled), 2);
      }
    }
  }
}

TEST(ScanOnCpu, RunsFusedChainsInItsBodies) {
  const LocalFunction local = compiled({});
  BodyTable bodies;
  bodies.add(*local.function);
  ASSERT_EQ(bodies.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    int fusions = 0;
    for (const Node& node : bodies[i].nodes) fusions += node.op == Op::fusion;
    EXPECT_GT(fusions, 0) << print(bodies[i]);
  }
  EXPECT_TRUE(verify(*local.function).empty());
  EXPECT_TRUE(same_graph(function_from_wire(to_wire(*local.function)), *local.function));
}

TEST(ScanOnCpu, NeedsAsMuchScratchForManyIterationsAsForFew) {
  const auto arena = [](int64_t layers) {
    Parallel par(1);
    return CpuFunction(compiled({.layers = layers, .gradients = false}), par).arena_bytes();
  };
  EXPECT_EQ(arena(4), arena(1000));
}

TEST(ScanOnCpu, AScanWithoutIterationsHandsItsCarriesOn) {
  Builder b("f", kOneDevice);
  const Value x = b.parameter("x", f32({2}));
  b.result("y", scan(b, {.length = 0, .carries = x}, [](const ScanStep& at) -> Scanned {
                  return {.carries = exp(at.carries)};
                }).carries);
  const LocalFunction local = compile_function(b.build(), {}).local;
  EXPECT_EQ(run_on_cpu(local, {{f32({2}), {3, 4}}}, 1)[0].values, (std::vector<double>{3, 4}));
}

// A call is taken up in the middle of an iteration, which happens after a kernel that threw.
TEST(ScanOnCpu, ACallThatIsTakenUpInAnIterationFindsItsTensors) {
  const LocalFunction local = compiled({.layers = 3, .gradients = false});
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, *local.function);
  const std::vector<Literal> whole = run_on_cpu(local, arguments, 1);
  EXPECT_EQ(run_on_cpu(local, arguments, 1, 0, Stepping::kForgetful), whole);
}

}  // namespace
}  // namespace gangway
