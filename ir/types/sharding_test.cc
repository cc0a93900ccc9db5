#include "ir/types/sharding.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace gangway::sharding_test {
namespace {

const Mesh kMesh{{{"data", 2}, {"expert", 4}}};

TEST(Sharding, LocalTypeCutsTheShardedDimension) {
  Sharding sharding = resolve(kMesh, {{"expert", shard(1)}});
  EXPECT_EQ(local_type(f32({6, 8}), kMesh, sharding), f32({6, 2}));
  EXPECT_EQ(local_type(f32({6, 6}), kMesh, sharding), f32({6, 2})) << "ceil(6 / 4)";
  EXPECT_FALSE(cuts_evenly(f32({6, 6}), kMesh, sharding)) << "6 is not divisible by 4";
  EXPECT_EQ(local_type(f32({6}), kMesh, sharding), std::nullopt) << "no dimension 1";
}

TEST(Sharding, APartThatIsNotExactIsCeilSizedAndUneven) {
  const Sharding on_both = resolve(kMesh, {{"data", shard(0)}, {"expert", shard(0)}});
  struct {
    int64_t size, part;
  } const kCases[] = {{0, 0}, {1, 1}, {7, 1}, {8, 1}, {9, 2}, {10, 2}, {16, 2}, {17, 3}};
  for (const auto& [size, part] : kCases) {
    EXPECT_EQ(local_type(f32({size}), kMesh, on_both), f32({part})) << size;
    EXPECT_EQ(cuts_evenly(f32({size}), kMesh, on_both), size % 8 == 0) << size;
  }
  const int64_t most = kElementsMax;
  EXPECT_EQ(local_type(f32({most}), kMesh, on_both), f32({most / 8}));
  const Mesh huge{{{"data", int64_t{1} << 62}}};
  EXPECT_EQ(local_type(f32({most}), huge, {shard(0)}), f32({1}));
  EXPECT_FALSE(cuts_evenly(f32({6}), kMesh, {shard(1), replicate()})) << "no dimension 1";
  EXPECT_FALSE(cuts_evenly(f32({6}), kMesh, {shard(0)})) << "one placement for two axes";
}

TEST(Sharding, AxesThatCutADimensionComeByOrderThenByPosition) {
  const Sharding sharding = {shard(0, 1), shard(1), shard(0), replicate(), shard(0, 1)};
  EXPECT_EQ(cut_axes(sharding, 0), (std::vector<int>{2, 0, 4}));
  EXPECT_EQ(cut_axes(sharding, 1), std::vector<int>{1});
  EXPECT_EQ(cut_axes(sharding, 2), std::vector<int>());
}

TEST(Sharding, ALayoutHasOneCanonicalSpelling) {
  const Mesh mesh{{{"a", 2}, {"one", 1}, {"b", 3}}};
  EXPECT_EQ(canonical(mesh, {shard(0, 3), shard(0, 2), shard(0, 7)}),
            (Sharding{shard(0), replicate(), shard(0)}))
      << "as the mesh orders them, and an axis of size 1 cuts nothing";
  EXPECT_EQ(canonical(mesh, {shard(0, 9), shard(1), shard(0, 4)}),
            (Sharding{shard(0, 1), replicate(), shard(0)}));
  EXPECT_EQ(canonical(mesh, {shard(1, 5), partial(), partial(Reduction::kMax)}),
            (Sharding{shard(1), replicate(), partial(Reduction::kMax)}));
}

TEST(Sharding, UnknownOrRepeatedAxisIsAnError) {
  EXPECT_THROW(resolve(kMesh, {{"model", shard(0)}}), Error);
  EXPECT_THROW(resolve(kMesh, {{"data", shard(0)}, {"data", shard(1)}}), Error);
}

TEST(Sharding, NamedPlacementsPrintAndParseBack) {
  const AxisPlacements some = {{"data", shard(0)},
                               {"two words", replicate()},
                               {"a: shard(1), b", shard(1, 2)},
                               {"\"quoted\"\\\n\t\x01", partial(Reduction::kMax)},
                               {"\u00fcber", shard(7)}};
  EXPECT_EQ(parse_axis_placements(to_string(some)), some) << to_string(some);
  EXPECT_EQ(to_string({{"data", shard(0)}, {"model", replicate()}}),
            "data: shard(0), model: replicate");
  EXPECT_EQ(parse_axis_placements(""), AxisPlacements());
  for (const char* text :
       {"data", "data:", "data: ", "data: shard(0), ", "data: shard(0),", ": shard(0)",
        "data:shard(0)", "two words: shard(0)", "\"data: shard(0)", "\"data\"",
        "\"d\\u0061ta\": shard(0)", "\"a\\", "\"\\u00", "data: mean"}) {
    EXPECT_EQ(parse_axis_placements(text), std::nullopt) << text;
  }
}

TEST(Sharding, PlacementsPrintAndParseBack) {
  for (const Placement& placement : {replicate(), partial(), partial(Reduction::kMax),
                                     partial(Reduction::kMin), shard(0), shard(7), shard(3, 15)}) {
    EXPECT_EQ(parse_placement(to_string(placement)), placement);
  }
  for (const char* text : {"", "shard", "shard()", "shard(-1)", "shard(8)", "shard(1", "shard(1)@",
                           "shard(1)@16", "shard(1)@-1", "shard(1)1", "shard(1)@1@1", "partial(",
                           "partial()", "partial(mean)", "partial(sum"}) {
    EXPECT_EQ(parse_placement(text), std::nullopt) << text;
  }
  EXPECT_EQ(to_string(shard(2, 1)), "shard(2)@1");
  EXPECT_EQ(to_string(partial(Reduction::kMax)), "partial(max)");
}

}  // namespace
}  // namespace gangway::sharding_test
