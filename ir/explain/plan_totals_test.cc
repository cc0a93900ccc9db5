#include "ir/explain/plan_totals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/transforms/pipeline.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

// A sum over "data", which lies on two hosts of one island, and one over "model", within them.
Plan two_sums() {
  const Mesh mesh{{{"data", 2}, {"model", 2}}};
  Builder b("f", mesh);
  const Value x = b.parameter("x", f32({64, 32}), {{"data", shard(0)}});
  const Value y = b.parameter("y", f32({64, 32}), {{"model", shard(0)}});
  b.result("over_data", sum(x, {0}));
  b.result("over_model", sum(y, {0}));
  Plan plan{.hosts = {"a", "b"}, .slices = {{mesh, {{0, 0, 2}, {1, 0, 2}}}}};
  plan.functions = {compile_function(b.build(), {}).local};
  plan.nodes.push_back({.function = 0});
  plan.values.push_back({.type = f32({8}), .local_type = f32({4})});
  plan.states.push_back({.value = 0});
  return plan;
}

// 32 floats each: a member of two sends 2 B (n - 1) / n = 128 bytes.
TEST(PlanTotals, CollectivesAreCountedByKindAndByHowFarTheyReach) {
  const Plan plan = two_sums();
  const std::vector<CollectiveTotal> totals = collective_totals(plan);
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].link, LinkClass::kHost);
  EXPECT_EQ(totals[1].link, LinkClass::kIsland);
  for (const CollectiveTotal& total : totals) {
    EXPECT_EQ(total.op, Op::all_reduce);
    EXPECT_EQ(total.tensors, 1);
    EXPECT_EQ(total.sent_bytes, 128);
  }
}

TEST(PlanTotals, SaysWhatEachDeviceHoldsAndSends) {
  Plan plan = two_sums();
  EXPECT_EQ(plan_totals_text(plan, {"main"}),
            "each device of slice \"main\" holds 16 B of states; sends 256 B in a run: all_reduce "
            "within a host 128 B (1 tensor), all_reduce between hosts of an island 128 B (1 "
            "tensor)\n");
  plan.islands = {"east", "west"};
  EXPECT_THAT(plan_totals_text(plan, {"main"}), HasSubstr("all_reduce between islands 128 B"));
  plan.nodes.clear();
  EXPECT_THAT(plan_totals_text(plan, {"main"}), HasSubstr("; sends nothing in a run\n"));
}

}  // namespace
}  // namespace gangway
