#include "ir/transforms/overlap/begin_early.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/text/text.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"
#include "runtime/base/cat.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// The ops of a function over two devices, in order.
std::vector<std::string> order_of(const std::string& parameters, const std::string& nodes) {
  const Function placed = begin_collectives_early(
      parse_function(cat("local func @f(", parameters, ") mesh {data: 2} {\n", nodes, "}\n")));
  require_valid(placed);
  std::vector<std::string> ops;
  for (const Node& node : placed.nodes) ops.emplace_back(to_string(node.op));
  return ops;
}
using Ops = std::vector<std::string>;

std::string gather(int result, int operand, int64_t whole) {
  return cat("  %", result, ": f32[", whole, "] = all_gather %", operand,
             " {axes = \"data\", dim = 0, parts = 2, size = ", whole, "}\n");
}

TEST(BeginEarly, ASumAndTheMovesOfItsOperandBeginOnceTheOperandIsComputed) {
  EXPECT_EQ(order_of(R"(%0 "x": f32[4, 2])", R"(
  %1: f32[4, 2] = exp %0
  %2: f32[4, 2] = tanh %0
  %3: f32[4, 2] = neg %2
  %4: f32[2, 4] = transpose %1 {permutation = [1, 0]}
  %5: f32[1, 4] = reduce_scatter %4 {axes = "data", dim = 0, parts = 2, reduction = "sum"}
  return %3 "y", %5 "sum"
)"),
            (Ops{"exp", "transpose", "reduce_scatter", "tanh", "neg"}));
}

TEST(BeginEarly, AnOperandWithOtherReadersStaysAndSoDoesTheSumBehindIt) {
  EXPECT_EQ(order_of(R"(%0 "x": f32[4, 2])", R"(
  %1: f32[4, 2] = exp %0
  %2: f32[4, 2] = tanh %0
  %3: f32[2, 4] = transpose %1 {permutation = [1, 0]}
  %4: f32[2, 4] = neg %3
  %5: f32[1, 4] = reduce_scatter %3 {axes = "data", dim = 0, parts = 2, reduction = "sum"}
  return %2 "y", %4 "z", %5 "sum"
)"),
            (Ops{"exp", "tanh", "transpose", "reduce_scatter", "neg"}));
}

// A weight of 64 KiB and one number more.
constexpr int64_t kLarge = kSmallGatherBytes / 4 + 2;

// A kernel reads x, then each of the gathered weights in turn.
std::vector<std::string> order_of_weights(int weights, int64_t whole) {
  std::string parameters = R"(%0 "x": f32[])";
  for (int w = 1; w <= weights; ++w)
    parameters += cat(", %", w, " \"w", w, "\": f32[", whole / 2, "]");
  int sum = weights + 1;
  std::string nodes = cat("  %", sum, ": f32[] = exp %0\n");
  for (int w = 1; w <= weights; ++w, sum += 3) {
    nodes += gather(sum + 1, w, whole);
    nodes += cat("  %", sum + 2, ": f32[] = reduce_sum %", sum + 1, " {axes = [0]}\n");
    nodes += cat("  %", sum + 3, ": f32[] = add %", sum, ", %", sum + 2, "\n");
  }
  return order_of(parameters, cat(nodes, "  return %", sum, " \"y\"\n"));
}

TEST(BeginEarly, WeightsAreGatheredAFewAheadOfTheOneThatIsRead) {
  Ops expected(kGathersAhead, "all_gather");
  for (const char* op : {"exp", "all_gather", "reduce_sum", "add", "all_gather", "reduce_sum"})
    expected.emplace_back(op);
  Ops got = order_of_weights(kGathersAhead + 3, kLarge);
  ASSERT_GE(got.size(), expected.size());
  got.resize(expected.size());
  EXPECT_EQ(got, expected);
}

// x is carried through a loop, then multiplied by a weight.
std::vector<std::string> behind_a_loop(int64_t whole) {
  const Function placed = begin_collectives_early(
      parse_function(cat(R"(
body 0 local func @twice(%0 "x": f32[)",
                         whole, R"(]) mesh {data: 2} {
  %1: f32[)",
                         whole, R"(] = add %0, %0
  return %1 "x"
}
local func @f(%0 "x": f32[)",
                         whole, R"(], %1 "w": f32[)", whole / 2, R"(]) mesh {data: 2} {
  %2: f32[)",
                         whole, R"(] = scan %0 {carries = 1, invariants = 0, length = 3} body 0
  %3: f32[)",
                         whole, "] = exp %2\n", gather(4, 1, whole), "  %5: f32[", whole,
                         "] = mul %3, %4\n  return %5 \"y\"\n}\n")));
  require_valid(placed);
  std::vector<std::string> ops;
  for (const Node& node : placed.nodes) ops.emplace_back(to_string(node.op));
  return ops;
}

TEST(BeginEarly, NoLargeWeightLiesWholeAllThroughALoopThatDoesNotReadIt) {
  EXPECT_EQ(behind_a_loop(kLarge), (Ops{"scan", "all_gather", "exp", "mul"}));
  EXPECT_EQ(behind_a_loop(8), (Ops{"all_gather", "scan", "exp", "mul"}));
}

TEST(BeginEarly, AWeightIsGatheredAgainOnceTheFirstReaderHasReadIt) {
  EXPECT_EQ(order_of(R"(%0 "x": f32[8], %1 "w": f32[4])",
                     cat("  %2: f32[8] = exp %0\n", gather(3, 1, 8),
                         "  %4: f32[8] = mul %2, %3\n  %5: f32[8] = neg %4\n", gather(6, 1, 8),
                         "  %7: f32[8] = mul %5, %6\n  return %7 \"y\"\n")),
            (Ops{"all_gather", "exp", "mul", "all_gather", "neg", "mul"}));
}

TEST(BeginEarly, AWeightIsOneTensorHoweverOftenItIsMovedBeforeItIsGathered) {
  EXPECT_EQ(order_of(R"(%0 "x": f32[8], %1 "w": f32[4])",
                     cat("  %2: f32[8] = exp %0\n", gather(3, 1, 8),
                         "  %4: f32[8] = mul %2, %3\n  %5: f32[8] = neg %4\n",
                         "  %6: f32[4] = barrier %1\n", gather(7, 6, 8),
                         "  %8: f32[8] = mul %5, %7\n  return %8 \"y\"\n")),
            (Ops{"all_gather", "exp", "mul", "barrier", "all_gather", "neg", "mul"}));
}

TEST(BeginEarly, LayersOfAStackAreTensorsOfTheirOwn) {
  const auto layer = [](int first, int row) {
    return cat("  %", first, ": f32[1, 4] = slice %1 {limits = [", row + 1, ", 4], starts = [", row,
               ", 0], strides = [1, 1]}\n  %", first + 1, ": f32[4] = reshape %", first,
               " {dims = [4]}\n", gather(first + 2, first + 1, 8));
  };
  EXPECT_EQ(order_of(R"(%0 "x": f32[8], %1 "w": f32[2, 4])",
                     cat("  %2: f32[8] = exp %0\n", layer(3, 0), "  %6: f32[8] = mul %2, %5\n",
                         layer(7, 1), "  %10: f32[8] = mul %6, %9\n  return %10 \"y\"\n")),
            (Ops{"slice", "reshape", "all_gather", "slice", "reshape", "all_gather", "exp", "mul",
                 "mul"}));
}

TEST(BeginEarly, RandomFunctionsComputeTheSame) {
  const Mesh mesh{{{"data", 2}}};
  for (uint64_t round = 0; round < 20; ++round) {
    std::mt19937_64 random(tests::test_seed() + round);
    const Function global = tests::random_batch_function(random, mesh, DType::kF64);
    const Function simple = simplify(global);
    std::vector<Sharding> parameters;
    for (const Parameter& p : simple.parameters)
      parameters.push_back(canonical(mesh, resolve(mesh, p.placements)));
    const Propagation found = propagate_shardings(simple, parameters);
    const Function local = partition(simple, found, parameters, {}).function;
    const Function placed = begin_collectives_early(local);
    require_valid(placed);
    std::vector<std::vector<Literal>> arguments;
    for (int device = 0; device < 2; ++device)
      arguments.push_back(tests::random_arguments(random, local));
    EXPECT_EQ(interpret_local(placed, arguments), interpret_local(local, arguments));
  }
}

}  // namespace
}  // namespace gangway
