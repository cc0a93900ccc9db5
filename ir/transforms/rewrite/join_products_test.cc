#include "ir/transforms/rewrite/join_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::join_products_test {
namespace {

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

// x0 w0^T + x1 w1^T + x2 w2^T + rest, with `columns` columns of each x and one more of each next.
Function sum_of_products(int64_t columns) {
  Builder b("f", Mesh{{{"model", 2}}});
  Value rest = b.parameter("rest", f64({2, 24, 16}));
  Value total;
  for (int64_t i = 0; i < 3; ++i) {
    Value x = b.parameter(cat("x", i), f64({2, 24, columns + i}));
    Value w = b.parameter(cat("w", i), f64({16, columns + i}));
    Value product = dot_general(x, w, {.lhs_contract = {2}, .rhs_contract = {1}});
    total = total.empty() ? rest + product : total + product;
  }
  b.result("total", total);
  b.result("again", total * 2.0);
  return b.build();
}

TEST(JoinProducts, ProductsOfSmallOperandsBecomeOne) {
  const Function function = sum_of_products(2), joined = join_products(function);
  EXPECT_EQ(count(joined, Op::dot), 1);
  EXPECT_EQ(count(joined, Op::concat), 2);
  EXPECT_EQ(count(joined, Op::add), 1);
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, function);
  const std::vector<Literal> expected = interpret(function, arguments);
  const std::vector<Literal> made = interpret(joined, arguments);
  ASSERT_EQ(made.size(), expected.size());
  for (size_t r = 0; r < made.size(); ++r) {
    EXPECT_THAT(made[r].values,
                ::testing::Pointwise(::testing::DoubleNear(1e-12), expected[r].values));
  }
}

// x0 w0 + x1^T w1 + x2 w2 + ..., of so many columns of each.
Function sum_of(const std::vector<int64_t>& contracted) {
  Builder b("f", Mesh{{{"model", 2}}});
  Value total;
  for (size_t i = 0; i < contracted.size(); ++i) {
    const bool is_first = i % 2 == 0;  // The others have their operands the other way round.
    Value x =
        b.parameter(cat("x", i), f64(is_first ? Dims{24, contracted[i]} : Dims{contracted[i], 24}));
    Value w = b.parameter(cat("w", i), f64({contracted[i], 16}));
    Value product = dot_general(x, w, {.lhs_contract = {is_first ? 1 : 0}, .rhs_contract = {0}});
    total = total.empty() ? product : total + product;
  }
  b.result("total", total);
  return b.build();
}

TEST(JoinProducts, ProductsOfEachShapeBecomeOne) {
  const Function function = sum_of({1, 2, 2, 1, 1}), joined = join_products(function);
  EXPECT_EQ(count(joined, Op::dot), 2);
  EXPECT_EQ(count(joined, Op::add), 1);
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, function);
  const std::vector<Literal> expected = interpret(function, arguments);
  EXPECT_THAT(interpret(joined, arguments)[0].values,
              ::testing::Pointwise(::testing::DoubleNear(1e-12), expected[0].values));
}

TEST(JoinProducts, AJoinedProductHasNoMoreOperandsThanANodeCanHave) {
  Builder b("f", Mesh{{{"model", 2}}});
  Value x = b.parameter("x", f64({32, 1})), w = b.parameter("w", f64({1, 32}));
  Value total = dot(x, w);
  for (size_t i = 0; i <= kInputsMax; ++i) total = total + dot(x, w);
  b.result("total", total);
  const Function joined = join_products(b.build());
  EXPECT_EQ(count(joined, Op::dot), 2);
  EXPECT_EQ(verify(joined).size(), 0u);
}

TEST(JoinProducts, OperandsAsLargeAsTheirProductStayApart) {
  const Function function = sum_of_products(16);
  EXPECT_EQ(print(join_products(function)), print(function));
}

TEST(JoinProducts, AProductThatIsReadElsewhereStays) {
  Builder b("f", Mesh{{{"model", 2}}});
  Value x = b.parameter("x", f64({32, 1})), w = b.parameter("w", f64({1, 32}));
  Value y = b.parameter("y", f64({32, 1}));
  Value first = dot(x, w);
  b.result("sum", first + dot(y, w));
  b.result("first", first);
  const Function function = b.build();
  EXPECT_EQ(print(join_products(function)), print(function));
}

}  // namespace
}  // namespace gangway::join_products_test
