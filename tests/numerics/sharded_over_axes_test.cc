// The compiler's output over meshes of several axes, whatever the parameters' and results'
// placements and orders of cuts are.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string_view>

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

const Mesh kMesh{{{"a", 2}, {"b", 2}, {"c", 3}}};
const Type kSquare = f64({12, 12}), kRow = f64({12}), kFlat = f64({144});

class Graph {
 public:
  explicit Graph(uint64_t seed) : random_(seed), b_("graph", kMesh) {
    for (int i = 0; i < 4; ++i) keep(b_.parameter(cat("x", i), kSquare, placements(kSquare)));
    keep(b_.parameter("row", kRow, placements(kRow)));
    keep(b_.parameter("flat", kFlat, placements(kFlat)));
    index_ = b_.parameter("index", i32({12}), placements(i32({12})));
  }

  Function build(CallContext& context) {
    for (size_t i = 1 + below(5); i > 0; --i) step();
    for (size_t i = 1 + below(3); i > 0; --i) {
      const Value value = any({});
      b_.result(cat("r", i), value);
      context.result_placements.push_back(below(3) == 0 ? placements(value.type())
                                                        : AxisPlacements{});
    }
    return b_.build();
  }

  std::mt19937_64& random() { return random_; }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  void keep(Value value) { values_.push_back(value); }

  AxisPlacements placements(const Type& type) {
    AxisPlacements cut;
    for (const MeshAxis& axis : kMesh.axes) {
      if (type.rank() > 0 && below(2) == 0)
        cut.emplace_back(axis.name, shard(static_cast<int>(below(type.dims.size())),
                                          static_cast<int>(below(3))));
    }
    return cut;
  }

  Value any(const std::optional<Type>& type) {
    std::vector<Value> fitting;
    for (const Value& value : values_) {
      if (!type || value.type() == *type) fitting.push_back(value);
    }
    return fitting[below(fitting.size())];
  }

  void step() {
    const Value x = any(kSquare), y = any(kSquare), row = any(kRow), z = any({});
    switch (below(17)) {
      case 0: keep(x + y); break;
      case 1: keep(x * y); break;
      case 2: keep(maximum(x, y)); break;
      case 3: keep(dot(x, y)); break;
      case 4: keep(dot(transpose(x), y)); break;
      case 5: keep(sum(x, {static_cast<int>(below(2))})); break;
      case 6: keep(x * row); break;
      case 7: keep(reshape(x, {144})); break;
      case 8: keep(reshape(any(kFlat), {12, 12})); break;
      case 9: keep(x + broadcast_in(row, {12, 12}, {0})); break;
      case 10: keep(take(x, index_)); break;
      case 11: keep(scatter_add(index_, x, 12)); break;
      case 12: keep(softmax(x)); break;
      case 13: keep(tanh(z)); break;
      case 14: keep(z * sum(row)); break;
      case 15: keep(b_.shard(x, placements(kSquare), static_cast<int>(below(3)))); break;
      default: keep(x + iota(b_, kSquare, static_cast<int>(below(2)))); break;
    }
  }

  std::mt19937_64 random_;
  Builder b_;
  std::vector<Value> values_;
  Value index_;
};

TEST(ShardedEqualsWhole, WhateverIsCutOverWhichAxes) {
  const uint64_t seed = ::gangway::testing::test_seed();
  int compiled_count = 0;
  for (uint64_t n = 0; n < 600; ++n) {
    Graph graph(seed + n);
    CallContext context;
    const Function function = graph.build(context);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    const std::vector<Literal> arguments =
        ::gangway::testing::random_arguments(graph.random(), function);
    std::optional<Compiled> compiled;
    try {
      compiled = compile_function(function, context);
    } catch (const Error& error) {
      // Of random annotations some are in conflict.
      ASSERT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
      ASSERT_NE(std::string_view(error.what()).find("disagree"), std::string::npos) << error.what();
      continue;
    }
    ++compiled_count;
    ASSERT_LT(relative_difference(interpret_compiled(*compiled, arguments),
                                  interpret(function, arguments)),
              1e-9);
  }
  EXPECT_GT(compiled_count, 550);
}

}  // namespace
}  // namespace gangway::numerics
