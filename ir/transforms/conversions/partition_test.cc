#include "ir/transforms/conversions/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"

namespace gangway::partition_test {
namespace {

using ::testing::ElementsAre;

const Mesh kMesh{{{"data", 4}}};
const AxisPlacements kRows = {{"data", shard(0)}}, kColumns = {{"data", shard(1)}};

Partitioned partitioned(const Function& global, const std::vector<Sharding>& wanted = {}) {
  std::vector<Sharding> parameters;
  for (const Parameter& parameter : global.parameters)
    parameters.push_back(resolve(global.mesh, parameter.placements));
  return partition(global, propagate_shardings(global, parameters), parameters, wanted);
}

std::vector<std::string> ops(const Function& function) {
  std::vector<std::string> names;
  for (const Node& node : function.nodes) names.emplace_back(to_string(node.op));
  return names;
}

TEST(Partition, AReaderThatNeedsAllRowsGetsThemGathered) {
  Builder b("gather", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  b.result("y", cumsum(x, 0));
  const Function local = partitioned(b.build()).function;
  require_valid(local);
  EXPECT_THAT(ops(local), ElementsAre("all_gather", "cumsum"));
}

TEST(Partition, RowsAndColumnsChangePlacesInOneExchange) {
  Builder b("exchange", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  b.result("y", exp(x));
  const Function local = partitioned(b.build(), {{shard(1)}}).function;
  EXPECT_THAT(ops(local), ElementsAre("exp", "all_to_all"));
}

TEST(Partition, AResultThatIsWantedCutIsNotSummedWhole) {
  Builder b("scatter", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value w = b.parameter("w", f32({8, 4}), kRows);
  b.result("dw", dot(transpose(x), w));
  const Function local = partitioned(b.build(), {{shard(0)}}).function;
  require_valid(local);
  EXPECT_THAT(ops(local), ElementsAre("transpose", "dot", "reduce_scatter"));
}

TEST(Partition, AnOuterCutIsAddedBehindTheInnerOne) {
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  Builder b("outer", mesh);
  Value x = b.parameter("x", f32({8, 16}), {{"b", shard(0)}});
  b.result("y", exp(x));
  const Partitioned done = partitioned(b.build(), {{shard(0), shard(0)}});
  require_valid(done.function);
  EXPECT_EQ(done.function.types[done.function.results[0]], f32({2, 16}));
  EXPECT_THAT(ops(done.function), ElementsAre("exp", "shard_slice", "permute"));
}

TEST(Partition, EachValueIsConvertedOnceForEachShardingWanted) {
  Builder b("readers", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value y = exp(x);
  b.result("a", cumsum(y, 0));
  b.result("b", softmax(cumsum(y * 2.0, 0)));
  b.result("c", tanh(cumsum(y, 0)));
  const Function local = partitioned(b.build()).function;
  EXPECT_EQ(std::ranges::count(ops(local), "all_gather"), 2) << "of y and of its double";
}

TEST(Partition, AWeightIsGatheredForEachPassByItself) {
  Builder b("passes", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value w = b.parameter("w", f32({16, 16}), kRows);
  b.set_priorities(w, {2});
  Value y = dot(tanh(dot(x, w)), w);
  b.result("y", y);
  b.result("dx", gradients(sum(y), {x})[0]);
  const Function local = partitioned(b.build()).function;
  require_valid(local);
  EXPECT_EQ(std::ranges::count(ops(local), "all_gather"), 2);
  EXPECT_EQ(std::ranges::count(ops(simplify(local)), "all_gather"), 2) << "they are not merged";
}

TEST(Partition, ASumThatIsWantedWholeAndInPartsIsReducedOnce) {
  Builder b("settled", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value total = sum(x, {0});  // Partial.
  b.result("whole", tanh(total));
  b.result("part", total);
  b.result("whole again", total);
  EXPECT_THAT(ops(partitioned(b.build(), {{replicate()}, {shard(0)}, {replicate()}}).function),
              ElementsAre("reduce_sum", "all_reduce", "tanh", "shard_slice"));
}

TEST(Partition, ASumIsReducedOnceWhoeverReadsItFirst) {
  Builder b("settled", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value total = sum(x, {0});
  b.result("part", total);
  b.result("whole", total);
  EXPECT_THAT(ops(partitioned(b.build(), {{shard(0)}, {replicate()}}).function),
              ElementsAre("reduce_sum", "all_reduce", "shard_slice"));
}

// Rows in whole and in parts by turns.
Function chain(int nodes) {
  Builder b("chain", kMesh);
  Value x = b.parameter("x", f32({8, 16}), kRows);
  Value y = x;
  for (int i = 0; i < nodes / 2; ++i) y = cumsum(y, 0) + x;
  b.result("y", y);
  return b.build();
}

TEST(Partition, LooksAtEachNodeOnce) {
  std::vector<uint64_t> looked_at;
  for (const int nodes : {10'000, 20'000, 40'000}) {
    const Partitioned done = partitioned(chain(nodes));
    EXPECT_GT(std::ranges::count(ops(done.function), "all_gather"), nodes / 4);
    looked_at.push_back(done.looked_at);
  }
  EXPECT_EQ(looked_at[2] - looked_at[1], 2 * (looked_at[1] - looked_at[0]));
  EXPECT_LT(looked_at[2], 40'000u * 16);
}

// A mesh of four axes, each of which cuts one of four dimensions or none: `count` of these.
uint64_t looked_at_for_layouts(int count) {
  Builder b("layouts", Mesh{{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}}});
  const Value y = exp(b.parameter("x", f32({16, 16, 16, 16})));
  std::vector<Sharding> wanted;
  for (int i = 0; i < count; ++i) {
    b.result(cat("y", i), y);
    Sharding& sharding = wanted.emplace_back();
    for (int axis = 0, left = i; axis < 4; ++axis, left /= 5)
      sharding.push_back(left % 5 == 4 ? replicate() : shard(left % 5));
  }
  return partitioned(b.build(), wanted).looked_at;
}

TEST(Partition, TheWorkForOneValueGrowsLinearlyWithTheLayoutsWanted) {
  const uint64_t some = looked_at_for_layouts(20), more = looked_at_for_layouts(40),
                 most = looked_at_for_layouts(80);
  EXPECT_LT(static_cast<double>(most - more), 2.5 * static_cast<double>(more - some));
}

}  // namespace
}  // namespace gangway::partition_test
