#include "ir/graph/function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway::function_test {
namespace {

using testing::ElementsAre;

TEST(Function, TypesOfANodesOperandsStandInTheirOrder) {
  Builder b("f");
  const Value table = b.parameter("table", f32({8, 4})), index = b.parameter("index", i32({3}));
  b.result("rows", take(table, index));
  const Function f = b.build();
  EXPECT_THAT(input_types(f, f.nodes.back()), ElementsAre(f32({8, 4}), i32({3})));
}

TEST(Function, AConstantIsFilledWithItsValueAlone) {
  Builder b("f");
  const Value x = b.parameter("x", f32({4}));
  b.result("one", b.constant(f32({4}), 1));
  b.result("zero", b.constant(f32({4}), 0));
  b.result("other", neg(x));
  const Function f = b.build();
  ASSERT_EQ(f.nodes.size(), 3u);
  const auto values = [&](size_t node) {
    return std::pair(is_filled_with(f.nodes[node], 0), is_filled_with(f.nodes[node], 1));
  };
  EXPECT_EQ(values(0), std::pair(false, true));
  EXPECT_EQ(values(1), std::pair(true, false));
  EXPECT_EQ(values(2), std::pair(false, false));
}

}  // namespace
}  // namespace gangway::function_test
