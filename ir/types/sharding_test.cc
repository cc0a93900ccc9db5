#include "ir/types/sharding.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace gangway {
namespace {

const Mesh kMesh{{{"data", 2}, {"expert", 4}}};

TEST(Sharding, LocalTypeCutsTheShardedDimension) {
  Sharding sharding = resolve(kMesh, {{"expert", shard(1)}});
  EXPECT_EQ(local_type(f32({6, 8}), kMesh, sharding), f32({6, 2}));
  EXPECT_EQ(local_type(f32({6, 6}), kMesh, sharding), std::nullopt) << "6 is not divisible by 4";
  EXPECT_EQ(local_type(f32({6}), kMesh, sharding), std::nullopt) << "no dimension 1";
}

TEST(Sharding, UnknownOrRepeatedAxisIsAnError) {
  EXPECT_THROW(resolve(kMesh, {{"model", shard(0)}}), Error);
  EXPECT_THROW(resolve(kMesh, {{"data", shard(0)}, {"data", shard(1)}}), Error);
}

TEST(Sharding, PlacementsPrintAndParseBack) {
  for (const Placement& placement : {replicate(), partial(), shard(0), shard(7)}) {
    EXPECT_EQ(parse_placement(to_string(placement)), placement);
  }
  for (const char* text : {"", "shard", "shard()", "shard(-1)", "shard(8)", "shard(1"}) {
    EXPECT_EQ(parse_placement(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gangway
