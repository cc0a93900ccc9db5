#include "executor/store/tensor_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

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

// Every element of the part that the device has is copied once, from its offset to its offset.
void expect_part(const TensorShards& tensor, uint32_t device, const Box& part) {
  const std::vector<int64_t> held = elements_on(tensor, device);
  std::vector<int64_t> got(static_cast<size_t>(Type{DType::kF32, part.size}.elements()), -1);
  int64_t moved = 0;
  const ShardRuns runs(tensor, device, part);
  runs.for_each([&](int64_t at_part, int64_t at_shard, int64_t bytes) {
    moved += bytes;
    for (int64_t i = 0; i < bytes; i += 4)
      got[static_cast<size_t>((at_part + i) / 4)] = held[static_cast<size_t>((at_shard + i) / 4)];
  });
  EXPECT_EQ(runs.bytes(), moved);
  for (size_t i = 0; i < got.size(); ++i) {
    int64_t element = 0, stride = 1, rest = static_cast<int64_t>(i);
    for (size_t d = part.size.size(); d-- > 0; rest /= part.size[d]) {
      element += (part.begin[d] + rest % part.size[d]) * stride;
      stride *= tensor.type.dims[d];
    }
    const bool has = std::ranges::count(held, element) > 0;
    ASSERT_EQ(got[i], has ? element : -1) << to_string(part) << " device " << device;
  }
}

TEST(TensorShards, APartOfATensorIsFoundInEachShard) {
  const Type type = f32({4, 6, 3});
  for (const Sharding& sharding : {Sharding{replicate(), replicate()},
                                   {shard(0), shard(1)},
                                   {shard(1, 1), shard(1)},
                                   {shard(0), shard(2)}}) {
    const TensorShards tensor = cut(type, sharding);
    for (uint32_t device = 0; device < 6; ++device) {
      for (const Box& part :
           {whole_box(type.dims), Box{{1, 0, 0}, {2, 6, 3}}, Box{{0, 2, 0}, {1, 3, 3}},
            Box{{1, 1, 1}, {3, 4, 1}}, Box{{3, 5, 2}, {1, 1, 1}}, Box{{0, 3, 0}, {4, 0, 3}}})
        expect_part(tensor, device, part);
    }
  }
}

// Queries, keys and values of GPT-2 XL lie side by side. A checkpoint reads the keys of a layer.
TEST(TensorShards, APartOfPackedWeightsIsOneCallHoweverManyRowsItHas) {
  const Type type = f32({48, 1600, 3, 1600});
  const Box keys{{7, 0, 1, 0}, {1, 1600, 1, 1600}};
  const auto calls_of = [&](const Sharding& sharding, uint32_t device) {
    std::vector<ShardRuns::Rows> calls;
    ShardRuns(cut(type, sharding), device, keys).for_each_rows([&](const ShardRuns::Rows& rows) {
      calls.push_back(rows);
    });
    return calls;
  };
  // Offsets of the first row in part and shard, steps in them, bytes of a row, number of rows.
  EXPECT_THAT(calls_of({replicate(), replicate()}, 0),
              ElementsAre(FieldsAre(0, int64_t{7} * 1600 * 19200 + 6400, 6400, 19200, 6400, 1600)));
  // a = 1: the second half of each row.
  EXPECT_THAT(
      calls_of({shard(3), replicate()}, 3),
      ElementsAre(FieldsAre(3200, int64_t{7} * 1600 * 9600 + 3200, 6400, 9600, 3200, 1600)));
}

class RewrittenBuffer : public testing::Test {
 protected:
  void write(const Box& part, const std::shared_ptr<const Error>& failure = nullptr) {
    is_written(*buffer_, ShardRuns(tensor_, 1, part), tensor_.local.bytes(), failure);
  }

  const TensorShards tensor_ = cut(f32({4, 6}), {replicate(), shard(1)});  // Columns 2 and 3.
  const std::shared_ptr<DeviceMemory> memory_ =
      std::make_shared<DeviceMemory>("device", int64_t{1} << 20);
  const BufferPtr buffer_ = allocate_buffer(*memory_, 32, "state");
  const std::shared_ptr<const Error> lost_ =
      std::make_shared<const Error>(ErrorKind::kUnavailable, "lost");
};

TEST_F(RewrittenBuffer, IsWholeAgainWhenAllItsPartsWereWritten) {
  write({{0, 0}, {2, 6}}, lost_);
  EXPECT_EQ(buffer_->error, lost_);
  write({{0, 0}, {2, 6}});
  write({{2, 4}, {1, 2}});  // No element of it is on this device.
  EXPECT_EQ(buffer_->error, lost_);
  write({{2, 0}, {2, 6}});
  EXPECT_EQ(buffer_->error, nullptr);
}

TEST_F(RewrittenBuffer, IsNotWholeWhereAPartWasLeftOut) {
  buffer_->error = lost_;
  write({{0, 0}, {1, 6}});
  write({{2, 0}, {2, 6}});
  EXPECT_EQ(buffer_->error, lost_);
  write({{0, 0}, {2, 6}});  // Again from the begin.
  write({{2, 0}, {2, 6}});
  EXPECT_EQ(buffer_->error, nullptr);
}

TEST_F(RewrittenBuffer, IsWholeAgainWhenPartsThatLieSideBySideWereWritten) {
  buffer_->error = lost_;
  write({{0, 3}, {4, 1}});
  EXPECT_EQ(buffer_->error, lost_);
  write({{0, 3}, {4, 1}});  // Another attempt.
  EXPECT_EQ(buffer_->error, lost_);
  write({{0, 2}, {4, 1}});
  EXPECT_EQ(buffer_->error, nullptr);
  EXPECT_TRUE(buffer_->rewritten.empty());
}

TEST_F(RewrittenBuffer, IsWholeAgainAfterOneWrite) {
  buffer_->error = lost_;
  write({});
  EXPECT_EQ(buffer_->error, nullptr);
}

}  // namespace
}  // namespace gangway
