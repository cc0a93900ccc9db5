#include "executor/store/tensor_shards.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

// The elements of the global tensor that a device holds, in the order of its memory.
std::vector<int64_t> elements_on(const TensorShards& tensor, uint32_t mesh_device) {
  std::vector<int64_t> elements;
  ShardRuns(tensor, mesh_device).for_each([&](int64_t global, int64_t local, int64_t bytes) {
    EXPECT_EQ(local, static_cast<int64_t>(elements.size()) * 4);
    for (int64_t at = 0; at < bytes; at += 4) elements.push_back((global + at) / 4);
  });
  return elements;
}

TensorShards cut(Type type, const Sharding& sharding) {
  const Mesh mesh{{{"a", 2}, {"b", 3}}};
  return {type, *local_type(type, mesh, sharding), mesh, sharding, {}};
}

TEST(TensorShards, TheEarlierAxisIsTheOuterCut) {
  const TensorShards tensor = cut(f32({12}), {shard(0), shard(0)});
  EXPECT_EQ(elements_on(tensor, 1), (std::vector<int64_t>{2, 3})) << "a = 0, b = 1";
  EXPECT_EQ(elements_on(tensor, 5), (std::vector<int64_t>{10, 11}));
}

TEST(TensorShards, AxesCutInTheirOrder) {
  const TensorShards tensor = cut(f32({12}), {shard(0, 1), shard(0)});
  EXPECT_EQ(elements_on(tensor, 1), (std::vector<int64_t>{4, 5})) << "a = 0, b = 1";
  EXPECT_EQ(elements_on(tensor, 3), (std::vector<int64_t>{2, 3})) << "a = 1, b = 0";
}

TEST(TensorShards, InnerDimensionsAreCutIntoRuns) {
  const TensorShards tensor = cut(f32({2, 6}), {replicate(), shard(1)});
  EXPECT_EQ(elements_on(tensor, 1), (std::vector<int64_t>{2, 3, 8, 9}));
}

}  // namespace
}  // namespace gangway
