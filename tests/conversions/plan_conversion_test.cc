#include "ir/transforms/conversions/plan_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/conversions/converting_function.h"
#include "tests/conversions/held_parts.h"

namespace gangway::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Mesh kMesh{{{"a", 2}, {"b", 2}}};

std::vector<std::string> ops(const std::vector<ConversionStep>& steps) {
  std::vector<std::string> names;
  for (const ConversionStep& step : steps) {
    const AttrValue* axes = step.attrs.find(step.op == Op::shard_slice ? "axis" : "axes");
    names.push_back(cat(to_string(step.op), " ", std::get<std::string>(*axes)));
  }
  return names;
}

std::vector<std::string> plan(const Type& type, const Mesh& mesh, const Sharding& from,
                              const Sharding& to, const ConversionCosts& costs = {}) {
  return ops(plan_conversion(type, mesh, from, to, costs));
}

TEST(PlanConversion, OneCollectiveForEachPairOfPlacements) {
  const Mesh mesh{{{"a", 4}}};
  const Type type = f32({8, 16});
  EXPECT_THAT(plan(type, mesh, {shard(0)}, {shard(0)}), ElementsAre());
  EXPECT_THAT(plan(type, mesh, {replicate()}, {shard(0)}), ElementsAre("shard_slice a"));
  EXPECT_THAT(plan(type, mesh, {shard(0)}, {replicate()}), ElementsAre("all_gather a"));
  EXPECT_THAT(plan(type, mesh, {shard(0)}, {shard(1)}), ElementsAre("all_to_all a"));
  EXPECT_THAT(plan(type, mesh, {partial()}, {shard(1)}), ElementsAre("reduce_scatter a"));
  EXPECT_THAT(plan(type, mesh, {partial()}, {replicate()}), ElementsAre("all_reduce a"));
  EXPECT_THAT(plan(type, mesh, {replicate()}, {partial()}), ElementsAre("keep_first a"));
  EXPECT_THAT(plan(type, mesh, {replicate()}, {partial(Reduction::kMax)}), ElementsAre());
}

TEST(PlanConversion, AxesThatDoTheSameMoveInOneStep) {
  const Type type = f32({8, 16});
  EXPECT_THAT(plan(type, kMesh, {partial(), partial()}, {replicate(), replicate()}),
              ElementsAre("all_reduce a,b"));
  EXPECT_THAT(plan(type, kMesh, {shard(0), shard(0)}, {replicate(), replicate()}),
              ElementsAre("all_gather a,b"));
  EXPECT_THAT(plan(type, kMesh, {shard(0, 1), shard(0, 0)}, {shard(1, 1), shard(1, 0)}),
              ElementsAre("all_to_all b,a"));
  EXPECT_THAT(plan(type, kMesh, {partial(), partial()}, {shard(0, 1), shard(0, 0)}),
              ElementsAre("reduce_scatter b,a"));
}

TEST(PlanConversion, CutsChangeTheirOrderAndAxesTheirPlacesInOnePermutation) {
  const Type type = f32({8, 16});
  EXPECT_THAT(plan(type, kMesh, {shard(0, 0), shard(0, 1)}, {shard(0, 1), shard(0, 0)}),
              ElementsAre("permute a,b"));
  EXPECT_THAT(plan(type, kMesh, {shard(0), shard(1)}, {shard(1), shard(0)}),
              ElementsAre("permute a,b"));
  EXPECT_THAT(plan(type, kMesh, {shard(0), replicate()}, {replicate(), shard(0)}),
              ElementsAre("permute a,b"));
}

TEST(PlanConversion, UnevenCutsAreGatheredFromInsideOut) {
  const Mesh mesh{{{"a", 2}, {"b", 3}}};
  EXPECT_THAT(plan(f32({12}), mesh, {shard(0), shard(0)}, {replicate(), replicate()}),
              ElementsAre("all_gather a,b"));
  // 7 rows are 4 and 3, and these are 2, 2, 0 and 2, 1, 0.
  EXPECT_THAT(plan(f32({7}), mesh, {shard(0), shard(0)}, {replicate(), replicate()}),
              ElementsAre("all_gather b", "all_gather a"));
}

TEST(PlanConversion, AValueThatIsCutFirstIsReducedInParts) {
  EXPECT_THAT(plan(f32({8, 16}), kMesh, {partial(), replicate()}, {replicate(), shard(0)}),
              ElementsAre("shard_slice b", "all_reduce a"));
}

// b was not partial and must be the middle cut: one reduce-scatter cuts all three axes as terms of
// a sum.
TEST(PlanConversion, AxesThatReplicateJoinAReduceScatter) {
  const Mesh mesh{{{"a", 2}, {"b", 2}, {"c", 2}}};
  const Sharding cut = {shard(1, 2), shard(1, 1), shard(1, 0)};
  EXPECT_THAT(plan(f64({8, 8}), mesh, {partial(), replicate(), partial()}, cut),
              ElementsAre("keep_first b", "reduce_scatter c,b,a"));
  const Placement most = partial(Reduction::kMax);
  EXPECT_THAT(plan(f64({8, 8}), mesh, {most, replicate(), most}, cut),
              ElementsAre("reduce_scatter c,b,a"));
}

TEST(PlanConversion, SlowLinksCarryAsLittleAsTheyCan) {
  // Only results that are reduced within each island ("b") go between islands ("a").
  const ConversionCosts costs{.latency_ps = 1'000, .link_ps_per_byte = {10'000, 100}};
  EXPECT_THAT(plan(f32({1024}), kMesh, {partial(), partial()}, {replicate(), replicate()}, costs),
              ElementsAre("reduce_scatter b", "all_reduce a", "all_gather b"));
}

// The part that is gathered first is sent once, and is sent again with the second gather.
TEST(PlanConversion, AmongEqualPathsTheOneThatSendsLessBetweenFarDevicesIsTaken) {
  const Type type = f32({8, 16});
  const auto gathers = [&](const Mesh& mesh, std::vector<int> distance) {
    return plan(type, mesh, {shard(0), shard(1)}, {replicate(), replicate()},
                {.link_ps_per_byte = {}, .distance = std::move(distance)});
  };
  const Mesh two_and_four{{{"a", 2}, {"b", 4}}};
  for (const Mesh& mesh : {kMesh, two_and_four}) {
    EXPECT_THAT(gathers(mesh, {}), ElementsAre("all_gather a", "all_gather b"));
    EXPECT_THAT(gathers(mesh, {1, 0}), ElementsAre("all_gather a", "all_gather b"));
    EXPECT_THAT(gathers(mesh, {0, 1}), ElementsAre("all_gather b", "all_gather a"));
    EXPECT_THAT(gathers(mesh, {1, 2}), ElementsAre("all_gather b", "all_gather a"));
    EXPECT_THAT(gathers(mesh, {1, 1}), ElementsAre("all_gather a", "all_gather b"));
  }
}

std::vector<std::string> sums(const std::vector<ConversionStep>& steps) {
  std::vector<ConversionStep> reducing = steps;
  std::erase_if(reducing, [](const ConversionStep& step) {
    return step.op != Op::all_reduce && step.op != Op::reduce_scatter;
  });
  return ops(reducing);
}

TEST(PlanConversion, DistancesChangeNeitherCostsNorKindsNorTheOrderOfSums) {
  const Placement all[] = {replicate(), shard(0), shard(1), shard(0, 1), partial()};
  std::vector<Sharding> shardings;
  for (const Placement& a : all) {
    for (const Placement& b : all) shardings.push_back({a, b});
  }
  const auto kinds = [](const std::vector<ConversionStep>& steps) {
    std::vector<Op> all_ops;
    for (const ConversionStep& step : steps) all_ops.push_back(step.op);
    return all_ops;
  };
  size_t changed = 0;
  for (const Type& type : {f32({8, 16}), f32({7, 9}), f32({1024, 1024})}) {
    ConversionPlanner near(kMesh, {});
    for (const std::vector<int>& distance : std::vector<std::vector<int>>{{0, 1}, {1, 0}, {1, 2}}) {
      ConversionPlanner far(kMesh, {.link_ps_per_byte = {}, .distance = distance});
      for (const Sharding& from : shardings) {
        for (const Sharding& to : shardings) {
          const ConversionPath &a = near.plan(type, from, to), &b = far.plan(type, from, to);
          EXPECT_EQ(a.cost_ps, b.cost_ps);
          EXPECT_EQ(kinds(a.steps), kinds(b.steps));
          EXPECT_EQ(sums(a.steps), sums(b.steps));
          if (ops(a.steps) != ops(b.steps)) ++changed;
        }
      }
    }
  }
  EXPECT_GT(changed, 0u);
}

TEST(PlanConversion, AxesThatNeedNotMoveStay) {
  // Reducing half of it on each device along b would send less, but b has nothing to do with it.
  const Mesh mesh{{{"a", 4}, {"b", 2}}};
  EXPECT_THAT(plan(f32({1 << 20}), mesh, {partial(), replicate()}, {replicate(), replicate()}),
              ElementsAre("all_reduce a"));
  EXPECT_THAT(plan(f32({8, 16}), mesh, {shard(0), shard(0)}, {shard(0), replicate()}),
              ElementsAre("all_gather b"));
}

TEST(PlanConversion, AmongPathsOfEqualCostTheOneWithFewerStepsIsTaken) {
  // Nothing costs anything: the plan is one all-to-all, not a gather and a slice.
  const ConversionCosts nothing{.launch_ps = 0, .latency_ps = 0, .link_ps_per_byte = {0, 0}};
  EXPECT_THAT(plan(f32({8, 16}), kMesh, {shard(0), replicate()}, {shard(1), replicate()}, nothing),
              ElementsAre("all_to_all a"));
}

TEST(PlanConversion, AnEqualConversionIsLookedForOnce) {
  ConversionPlanner planner(kMesh, {});
  const ConversionPath& first =
      planner.plan(f32({8, 16}), {shard(0), shard(1)}, {shard(1), shard(0)});
  const uint64_t seen = planner.edges_seen();
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(&planner.plan(f32({8, 16}), {shard(0), shard(1)}, {shard(1), shard(0)}), &first);
  EXPECT_EQ(planner.edges_seen(), seen);
}

TEST(PlanConversion, APlannerThatMayLookNoFurtherGoesOneAxisAtATime) {
  ConversionPlanner planner(kMesh, {}, 1);
  const Type type = f32({8, 16});
  const Sharding rows = {shard(0), replicate()}, columns = {shard(1), replicate()};
  EXPECT_EQ(planner.plan(type, rows, columns).steps.size(), 1u) << "the search that it began";
  EXPECT_GE(planner.edges_seen(), 1u);
  EXPECT_THAT(ops(planner.plan(type, columns, rows).steps),
              ElementsAre("all_gather a", "shard_slice a"));
}

// Eight axes change dimension and order, which gives more layouts than the planner looks at.
TEST(PlanConversion, ManyAxesAreConvertedInTheLegalOrder) {
  Mesh mesh;
  Sharding from, to;
  for (int i = 0; i < 8; ++i) {
    mesh.axes.push_back({std::string(1, static_cast<char>('a' + i)), 2});
    from.push_back(shard(i % 2, i));
    to.push_back(i == 3 ? partial() : shard((i + 1) % 2, 8 - i));
  }
  const Type type = f32({27, 19});
  const std::vector<ConversionStep> steps = plan_conversion(type, mesh, from, to, {});
  EXPECT_EQ(steps.size(), 16u) << "8 gathers, 7 slices, and member 0 of the sum keeps its value";
  const HeldAs begin(type, mesh, from);
  HeldParts parts = begin.parts();
  for (const ConversionStep& step : steps) {
    const std::optional<AfterOp> after = apply(mesh, step.op, step.attrs, parts);
    ASSERT_TRUE(after.has_value());
    parts = after->parts;
    ASSERT_TRUE(HeldAs(type, mesh, step.after).fits(parts, begin.whole()))
        << to_string(mesh, step.after);
  }
  EXPECT_TRUE(HeldAs(type, mesh, to).fits(parts, begin.whole()));
}

TEST(PlanConversion, HugeTensorsOverManyDevicesDoNotOverflow) {
  const Mesh mesh{{{"a", 1 << 12}, {"b", 1 << 12}}};
  const Type type = f64({1, int64_t{1} << 40});
  const auto steps =
      plan_conversion(type, mesh, {shard(0), partial()}, {replicate(), replicate()}, {});
  EXPECT_FALSE(steps.empty());
  for (const ConversionStep& step : steps) EXPECT_GE(step.bytes, 0);
}

TEST(PlanConversion, RefusesTwoReductionsAtOnceAndCutsOutOfRange) {
  const auto message = [](const Sharding& from, const Sharding& to) -> std::string {
    try {
      plan_conversion(f32({8, 16}), kMesh, from, to, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({partial(), partial(Reduction::kMax)}, {replicate(), replicate()}),
              HasSubstr("two reductions in one sharding"));
  EXPECT_THAT(message({replicate(), replicate()}, {shard(2), replicate()}),
              HasSubstr("can't be placed as"));
}

}  // namespace
}  // namespace gangway::tests
