#include "ir/transforms/rewrite/body_uses.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/transforms/rewrite/simplify.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

constexpr int kCarries = 6;

// Scans inside scans, each with carries that need the one before them: what is needed is found one
// carry a round, at every depth.
Scanned chained(Builder& b, const Value& x, int depth) {
  Tree carries;
  for (int c = 0; c < kCarries; ++c) carries.set(cat("c", c), x);
  return scan(b, {.length = 2, .carries = carries}, [&](const ScanStep& step) -> Scanned {
    Tree next;
    for (int c = 0; c < kCarries; ++c) {
      Value value = step.carries[cat("c", c)];
      if (c > 0) value = value + step.carries[cat("c", c - 1)];
      if (depth > 1) value = chained(step.builder, value, depth - 1).carries[cat("c", c)];
      next.set(cat("c", c), value);
    }
    return {.carries = next};
  });
}

TEST(BodyUses, CarriesThatNeedOneAnotherAreFoundAtEveryDepth) {
  Builder b("f");
  const Value x = b.parameter("x", f32());
  b.result("y", chained(b, x, 3).carries["c2"]);
  const Function simple = simplify(b.build());
  ASSERT_EQ(simple.nodes.size(), 1u);
  EXPECT_EQ(simple.nodes[0].results, 3u) << "c0 and c1 too";
  EXPECT_EQ(simple.nodes[0].body->parameters.size(), 3u);
}

TEST(BodyUses, ResultsBeyondTheBoundOnVisitsCountAsNeeded) {
  Builder b("f");
  const Value x = b.parameter("x", f32());
  b.result("y", chained(b, x, 2).carries["c0"]);
  const Function function = b.build();
  const std::vector<bool> read = {true, false, false, false, false, false};
  EXPECT_EQ(BodyUses().used_by(function.nodes[0], read).results, read);
  EXPECT_EQ(BodyUses(0).used_by(function.nodes[0], read).results, std::vector<bool>(6, true));
}

}  // namespace
}  // namespace gangway
