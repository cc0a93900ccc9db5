#include "tests/numerics/against_whole.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

bool is_conflict(const Error& error) {
  return error.kind() == ErrorKind::kInvalid &&
         std::string_view(error.what()).find("two annotations of") != std::string_view::npos;
}

// Nothing if annotations are in conflict, or if the test has failed.
std::optional<Compiled> compiled(const Function& function, const CallContext& context) {
  try {
    return compile_function(function, context);
  } catch (const Error& error) {
    EXPECT_TRUE(is_conflict(error)) << error.what();
    return std::nullopt;
  }
}

// Compares relative to the largest element of each result, or to 1 where all are smaller: sums that
// cancel leave only roundings.
void expect_close(const std::vector<Literal>& got, const std::vector<Literal>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].type, expected[r].type);
    double largest = 1;
    for (double value : expected[r].values) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < got[r].values.size(); ++i) {
      const double a = got[r].values[i], b = expected[r].values[i];
      const bool same = a == b || (std::isnan(a) && std::isnan(b));
      ASSERT_TRUE(same || std::abs(a - b) <= 1e-9 * largest)
          << "result " << r << ", element " << i << ": got " << a << ", expected " << b;
    }
  }
}

}  // namespace

void expect_as_whole(uint64_t count, const RandomFunction& make) {
  const uint64_t seed = gangway::tests::test_seed();
  uint64_t compiled_count = 0;
  for (uint64_t n = 0; n < count; ++n) {
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n));
    std::mt19937_64 random(seed + n);
    CallContext context;
    const Function function = make(random, context);
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    if (const std::optional<Compiled> local = compiled(function, context)) {
      ++compiled_count;
      expect_close(interpret_compiled(*local, arguments), interpret(function, arguments));
    }
    if (::testing::Test::HasFailure()) FAIL() << print(function, {.locations = false});
  }
  EXPECT_GE(compiled_count * 10, count * 9);
}

}  // namespace gangway::numerics
