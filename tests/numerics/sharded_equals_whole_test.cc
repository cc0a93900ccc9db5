// A function compiled for several devices gives the results of the whole one, whatever the graph.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

constexpr int kGraphs = 300;

void expect_close(const Literal& got, const Literal& expected) {
  ASSERT_EQ(got.type, expected.type);
  const double tolerance = is_float(got.type.dtype) ? 1e-11 : 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], expected.values[i],
                tolerance * std::max(1.0, std::abs(expected.values[i])))
        << "element " << i;
  }
}

TEST(ShardedEqualsWhole, RandomGraphsOverABatchGiveTheWholeResults) {
  const uint64_t seed = gangway::tests::test_seed();
  for (uint64_t graph = 0; graph < kGraphs; ++graph) {
    for (int64_t devices : {2, 4}) {
      std::mt19937_64 random(seed + graph);
      const Mesh mesh{{{"data", devices}}};
      const Function function =
          gangway::tests::random_batch_function(random, mesh, DType::kF64, graph % 2 == 1);
      SCOPED_TRACE(cat("GW_TEST_SEED=", seed + graph, " on ", devices, " devices"));
      const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
      const std::vector<Literal> whole = interpret(function, arguments);
      const std::vector<Literal> sharded =
          interpret_compiled(compile_function(function, {}), arguments);
      for (size_t r = 0; r < whole.size(); ++r) {
        SCOPED_TRACE(cat("result ", r, " \"", function.result_names[r], "\""));
        expect_close(sharded[r], whole[r]);
      }
      if (HasFailure()) FAIL() << print(function, {.locations = false});
    }
  }
}

// Counts are summed over the batch, and several kinds of ops read the sums.
TEST(ShardedEqualsWhole, CountsThatAreSummedOverTheBatchGiveTheWholeResults) {
  std::mt19937_64 random(gangway::tests::test_seed());
  const Mesh mesh{{{"data", 4}}};
  Builder b("counts", mesh);
  const AxisPlacements rows = {{"data", shard(0)}};
  Value x = b.parameter("x", f64({8}), rows), n = b.parameter("n", i32({8}), rows);
  Value w = b.parameter("w", f64({40})), table = b.parameter("table", f64({40, 2}));
  Value count = sum(n);
  b.result("quotient", count / 3);
  b.result("square", count * count);
  b.result("truncated", convert(sum(x) * 7, DType::kI32));
  b.result("flag", convert(sum(n), DType::kBool));
  b.result("window", dynamic_slice(w, count, 0, 4));
  b.result("row", scatter_add(reshape(count / 16, {1}), reshape(w, {1, 40}), 3));
  b.result("taken", take(table, count));
  const Function function = b.build();
  const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
  const std::vector<Literal> whole = interpret(function, arguments);
  const std::vector<Literal> sharded =
      interpret_compiled(compile_function(function, {}), arguments);
  for (size_t r = 0; r < whole.size(); ++r) {
    SCOPED_TRACE(function.result_names[r]);
    expect_close(sharded[r], whole[r]);
  }
}

}  // namespace
}  // namespace gangway::numerics
