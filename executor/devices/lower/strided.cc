#include "executor/devices/lower/strided.h"

#include <algorithm>

#include "ir/op_table/op.h"
#include "runtime/base/error.h"

namespace gangway {

StridedCopy broadcast_copy(const Type& from, const Type& to, const std::vector<int64_t>& map) {
  StridedCopy copy{.bytes = static_cast<int64_t>(size_of(to.dtype)),
                   .sizes = to.dims,
                   .src_strides = std::vector<int64_t>(to.dims.size(), 0),
                   .dst_strides = dense_strides(to.dims)};
  const std::vector<int64_t> strides = dense_strides(from.dims);
  for (size_t i = 0; i < map.size(); ++i) {
    if (from.dims[i] != 1) copy.src_strides[static_cast<size_t>(map[i])] = strides[i];
  }
  return copy;
}

namespace {

int64_t bytes_of(const Type& type) { return static_cast<int64_t>(size_of(type.dtype)); }

// Reads the first window of x, with `steps` (empty: 1), to y, which is dense.
StridedCopy read_window(const Type& x, const Type& y, const std::vector<int64_t>& steps) {
  StridedCopy copy{.bytes = bytes_of(x),
                   .sizes = y.dims,
                   .src_strides = dense_strides(x.dims),
                   .dst_strides = dense_strides(y.dims)};
  for (size_t d = 0; d < steps.size(); ++d) copy.src_strides[d] *= steps[d];
  return copy;
}

// Writes x, which is dense, to the first window of y.
StridedCopy write_window(const Type& x, const Type& y) {
  return {.bytes = bytes_of(x),
          .sizes = x.dims,
          .src_strides = dense_strides(x.dims),
          .dst_strides = dense_strides(y.dims)};
}

int64_t offset_bytes(const Type& inside, const std::vector<int64_t>& starts) {
  const std::vector<int64_t> strides = dense_strides(inside.dims);
  int64_t offset = 0;
  for (size_t d = 0; d < starts.size(); ++d) offset += starts[d] * strides[d];
  return offset * bytes_of(inside);
}

}  // namespace

WindowCopy plain_move(const NodeView& node) {
  const Type &x = node.in(0), &y = node.out();
  if (node.op() == Op::broadcast) return {broadcast_copy(x, y, node.attrs().ints("map"))};
  if (node.op() == Op::transpose)
    return {permute_copy(bytes_of(x), x.dims, node.attrs().ints("permutation"))};
  GW_ASSERT(node.op() == Op::slice);
  return {read_window(x, y, node.attrs().ints("strides")),
          offset_bytes(x, node.attrs().ints("starts"))};
}

std::vector<WindowCopy> concat_copies(const NodeView& node) {
  std::vector<WindowCopy> copies;
  const auto axis = static_cast<size_t>(node.attrs().integer("axis"));
  std::vector<int64_t> starts(node.out().dims.size(), 0);
  for (size_t i = 0; i < node.inputs(); ++i) {
    copies.push_back({write_window(node.in(i), node.out()), 0, offset_bytes(node.out(), starts)});
    starts[axis] += node.in(i).dims[axis];
  }
  return copies;
}

WindowCopy pad_copy(const NodeView& node) {
  const std::vector<int64_t>&low = node.attrs().ints("low"), &high = node.attrs().ints("high");
  const Type &x = node.in(0), &y = node.out();
  std::vector<int64_t> from(low.size()), to(low.size());
  StridedCopy copy = write_window(x, y);
  for (size_t d = 0; d < low.size(); ++d) {
    from[d] = std::max<int64_t>(0, -low[d]);
    to[d] = std::max<int64_t>(0, low[d]);
    copy.sizes[d] = std::max<int64_t>(0, x.dims[d] - from[d] - std::max<int64_t>(0, -high[d]));
  }
  return {std::move(copy), offset_bytes(x, from), offset_bytes(y, to)};
}

MovingCopy moving_copy(const NodeView& node) {
  const bool update = node.op() == Op::dynamic_update;
  const auto axis = static_cast<size_t>(node.attrs().integer("axis"));
  const Type& x = node.in(0);
  const Type& window = update ? node.in(1) : node.out();
  return {update ? write_window(window, x) : read_window(x, window, {}),
          x.dims[axis] - window.dims[axis], dense_strides(x.dims)[axis]};
}

ShardCopy shard_copy(const NodeView& node) {
  const auto dim = static_cast<size_t>(node.attrs().integer("dim"));
  const int64_t rows = node.in(0).dims[dim], part = node.out().dims[dim];
  ShardCopy made{.whole = read_window(node.in(0), node.out(), {}), .rest = {}};
  made.rest = made.whole;
  made.whole_parts = part == 0 ? 0 : rows / part;
  made.rest_rows = part == 0 ? 0 : rows % part;
  made.rest.sizes[dim] = made.rest_rows;
  made.step = part * dense_strides(node.in(0).dims)[dim];
  return made;
}

}  // namespace gangway
