#include "executor/store/tensor_shards.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

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
    } else if (rows.count > 1) {
      steps_.push_back({rows.count, in_part, in_shard});
      total_ *= rows.count;
    }
    is_run &= rows.count == rows.part && rows.count == rows.shard;
    in_part *= rows.part;
    in_shard *= rows.shard;
  }
  std::ranges::reverse(steps_);
}

namespace {

using Ranges = std::map<int64_t, int64_t>;

// The range that begins last at or before `at`, or else the first one.
Ranges::iterator range_before(Ranges& ranges, int64_t at) {
  const auto after = ranges.upper_bound(at);
  return after == ranges.begin() ? after : std::prev(after);
}

bool overlaps(Ranges& ranges, int64_t begin, int64_t end) {
  for (auto at = range_before(ranges, begin); at != ranges.end() && at->first < end; ++at) {
    if (at->second > begin) return true;
  }
  return false;
}

// Adds a range that overlaps none, and joins it with those that it touches.
void add(Ranges& ranges, int64_t begin, int64_t end) {
  auto at = ranges.emplace(begin, end).first;
  if (const auto next = std::next(at); next != ranges.end() && next->first == end) {
    at->second = next->second;
    ranges.erase(next);
  }
  if (at == ranges.begin()) return;
  if (const auto before = std::prev(at); before->second == begin) {
    before->second = at->second;
    ranges.erase(at);
  }
}

}  // namespace

void is_written(Buffer& buffer, const ShardRuns& runs, int64_t shard_bytes,
                const std::shared_ptr<const Error>& failure) {
  Ranges& rewritten = buffer.rewritten;
  if (failure != nullptr || buffer.error == nullptr || runs.bytes() == shard_bytes) {
    buffer.error = failure;
    rewritten.clear();
    return;
  }
  bool begins_anew = false;
  runs.for_each([&](int64_t, int64_t at, int64_t bytes) {
    begins_anew |= overlaps(rewritten, at, at + bytes);
  });
  if (begins_anew) rewritten.clear();
  runs.for_each([&](int64_t, int64_t at, int64_t bytes) {
    if (bytes > 0) add(rewritten, at, at + bytes);
  });
  if (rewritten.empty() || *rewritten.begin() != std::pair<const int64_t, int64_t>(0, shard_bytes))
    return;
  buffer.error = nullptr;
  rewritten.clear();
}

bool is_first_copy(const TensorShards& tensor, uint32_t mesh_device) {
  for (size_t axis = 0; axis < tensor.sharding.size(); ++axis) {
    if (tensor.sharding[axis].kind == PlacementKind::kShard) continue;
    if (tensor.mesh.coordinate(mesh_device, static_cast<int>(axis)) != 0) return false;
  }
  return true;
}

}  // namespace gangway
