#include "executor/store/tensor_shards.h"

#include <algorithm>

namespace gangway {

namespace {

// In one dimension: the rows of the shard, those of the part, and those in both.
struct OverlapRows {
  int64_t shard_begin = 0, shard = 0, part_begin = 0, part = 0, begin = 0, count = 0;
};

OverlapRows rows_of(const TensorShards& tensor, uint32_t mesh_device, const Box& part, size_t dim) {
  const int64_t whole = tensor.type.dims[dim];
  OverlapRows rows{.shard = tensor.local.dims[dim], .part = whole};
  int64_t cut = whole;
  for (int axis : cut_axes(tensor.sharding, static_cast<int>(dim))) {
    cut /= tensor.mesh.axes[static_cast<size_t>(axis)].size;
    rows.shard_begin += tensor.mesh.coordinate(mesh_device, axis) * cut;
  }
  if (!part.begin.empty()) {
    rows.part_begin = part.begin[dim];
    rows.part = part.size[dim];
  }
  rows.begin = std::max(rows.shard_begin, rows.part_begin);
  rows.count = std::min(rows.shard_begin + rows.shard, rows.part_begin + rows.part) - rows.begin;
  return rows;
}

}  // namespace

// Inner dimensions that are whole in both, and the first that is not, make one contiguous run.
ShardRuns::ShardRuns(const TensorShards& tensor, uint32_t mesh_device, const Box& part) {
  bytes_ = static_cast<int64_t>(size_of(tensor.type.dtype));
  int64_t in_part = bytes_, in_shard = bytes_;
  bool is_run = true;
  for (size_t d = tensor.type.dims.size(); d-- > 0;) {
    const OverlapRows rows = rows_of(tensor, mesh_device, part, d);
    if (rows.count <= 0) {
      total_ = 0;
      return;
    }
    part_offset_ += (rows.begin - rows.part_begin) * in_part;
    shard_offset_ += (rows.begin - rows.shard_begin) * in_shard;
    if (is_run) {
      bytes_ *= rows.count;
    } else {
      steps_.push_back({rows.count, in_part, in_shard});
      total_ *= rows.count;
    }
    is_run &= rows.count == rows.part && rows.count == rows.shard;
    in_part *= rows.part;
    in_shard *= rows.shard;
  }
  std::ranges::reverse(steps_);
}

void is_written(Buffer& buffer, const ShardRuns& runs, int64_t shard_bytes,
                const std::shared_ptr<const Error>& failure) {
  if (failure != nullptr || buffer.error == nullptr || runs.bytes() == shard_bytes) {
    buffer.error = failure;
    buffer.rewritten = 0;
    return;
  }
  int64_t next = buffer.rewritten;
  bool follows = true;
  runs.for_each([&](int64_t, int64_t at, int64_t bytes) {
    if (at == 0) next = 0;
    follows &= at == next;
    next = at + bytes;
  });
  if (follows) buffer.rewritten = next;
  if (buffer.rewritten < shard_bytes) return;
  buffer.error = nullptr;
  buffer.rewritten = 0;
}

bool is_first_copy(const TensorShards& tensor, uint32_t mesh_device) {
  for (size_t axis = 0; axis < tensor.sharding.size(); ++axis) {
    if (tensor.sharding[axis].kind == PlacementKind::kShard) continue;
    if (tensor.mesh.coordinate(mesh_device, static_cast<int>(axis)) != 0) return false;
  }
  return true;
}

}  // namespace gangway
