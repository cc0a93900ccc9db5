// Attention cut by heads, q, k and v projected separately (Megatron-LM): each device computes its
// own heads, and their output projections are summed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "runtime/base/cat.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Mesh kMesh{{{"model", 2}}};
const AxisPlacements kRows = {{"model", shard(0)}}, kColumns = {{"model", shard(1)}};
constexpr int64_t kWidth = 4;

std::vector<std::string> collectives(const Function& local) {
  std::vector<std::string> names;
  for (const Node& node : local.nodes) {
    if (row(node.op).meets) names.emplace_back(to_string(node.op));
  }
  return names;
}

// Compiles the function, and expects the results of the whole one.
Compiled checked(const Function& function, const CallContext& context) {
  std::mt19937_64 random(gangway::tests::test_seed());
  std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
  Compiled compiled = compile_function(function, context);
  EXPECT_LT(
      relative_difference(interpret_compiled(compiled, arguments), interpret(function, arguments)),
      1e-12)
      << print(*compiled.local.function, {.locations = false});
  return compiled;
}

// Compiles o(attention(q(x), k(x), v(x))), with the gradients of all parameters if asked.
Compiled layer(int64_t heads, bool with_gradients) {
  Builder b("layer", kMesh);
  const int64_t dim = heads * kWidth;
  const Type w{DType::kF64, {dim, dim}};
  const Value x = b.parameter("x", f64({2, 5, dim}));
  const Value q = b.parameter("q", w, kColumns), k = b.parameter("k", w, kColumns),
              v = b.parameter("v", w, kColumns), o = b.parameter("o", w, kRows);
  const Value mixed = attention(dot(x, q), dot(x, k), dot(x, v), {.heads = heads, .causal = true});
  const Value y = dot(mixed, o);
  CallContext context;
  if (with_gradients) {
    context.result_placements = {{}, kColumns, kColumns, kColumns, kRows};
    const std::vector<Value> gradient = gradients(sum(square(y)), {x, q, k, v, o});
    for (size_t i = 0; i < gradient.size(); ++i) b.result(cat("d", i), gradient[i]);
  } else {
    b.result("y", y);
  }
  return checked(b.build(), context);
}

TEST(AttentionByHeads, ForwardMeetsOnceAndBackwardOnceMore) {
  EXPECT_THAT(collectives(*layer(4, false).local.function), ElementsAre("all_reduce"));
  EXPECT_THAT(collectives(*layer(4, true).local.function), ElementsAre("all_reduce", "all_reduce"));
}

// Positions cut between layers by the same axis: heads win within, and keys do not go round.
TEST(AttentionByHeads, PositionsCutBetweenLayersAreGatheredAndScattered) {
  Builder b("layer", kMesh);
  const int64_t dim = 4 * kWidth;
  const Type w{DType::kF64, {dim, dim}};
  const AxisPlacements positions = {{"model", shard(1)}};
  Value x = b.parameter("x", f64({2, 6, dim}));
  const Value norm = b.parameter("norm", f64({dim}));
  const Value q = b.parameter("q", w, kColumns), k = b.parameter("k", w, kColumns),
              v = b.parameter("v", w, kColumns), o = b.parameter("o", w, kRows);
  x = b.shard(x, positions);
  const Value n = rms_norm(x, norm);
  const Value mixed = attention(dot(n, q), dot(n, k), dot(n, v), {.heads = 4, .causal = true});
  const Value y = b.shard(x + dot(mixed, o), positions);
  b.result("y", y);
  const std::vector<Value> gradient = gradients(sum(square(y)), {q, k, v, o});
  for (size_t i = 0; i < gradient.size(); ++i) b.result(cat("d", i), gradient[i]);
  const Compiled compiled =
      checked(b.build(), {.result_placements = {positions, kColumns, kColumns, kColumns, kRows}});
  EXPECT_THAT(collectives(*compiled.local.function),
              ElementsAre("all_gather", "reduce_scatter", "all_gather"));
}

TEST(AttentionByHeads, EachDeviceDecodesWithItsPartOfTheCache) {
  Builder b("decode", kMesh);
  const AxisPlacements heads = {{"model", shard(2)}};
  const Type cache{DType::kF64, {2, 6, 8}};
  const Value q = b.parameter("q", f64({2, 1, 8}), heads);
  const Value k = b.parameter("k", cache, heads), v = b.parameter("v", cache, heads);
  const Value length = b.parameter("length", i32());
  b.result("y", attention_decode(q, k, v, length, {.heads = 4}));
  const Compiled compiled = checked(b.build(), {.result_placements = {heads}});
  EXPECT_THAT(collectives(*compiled.local.function), IsEmpty());
}

// A device cannot use a part of a head: projections are gathered, and every device computes all
// heads.
TEST(AttentionByHeads, HeadsThatDoNotDivideAreComputedWhole) {
  EXPECT_THAT(collectives(*layer(3, false).local.function),
              ElementsAre("all_gather", "all_gather", "all_gather", "all_reduce"));
}

}  // namespace
}  // namespace gangway::numerics
