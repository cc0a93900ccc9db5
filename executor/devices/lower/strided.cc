#include "executor/devices/lower/strided.h"

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

StridedCopy read_window(const Type& x, const Type& y, const std::vector<int64_t>& steps) {
  StridedCopy copy{.bytes = static_cast<int64_t>(size_of(x.dtype)),
                   .sizes = y.dims,
                   .src_strides = dense_strides(x.dims),
                   .dst_strides = dense_strides(y.dims)};
  for (size_t d = 0; d < steps.size(); ++d) copy.src_strides[d] *= steps[d];
  return copy;
}

StridedCopy write_window(const Type& x, const Type& y) {
  return {.bytes = static_cast<int64_t>(size_of(x.dtype)),
          .sizes = x.dims,
          .src_strides = dense_strides(x.dims),
          .dst_strides = dense_strides(y.dims)};
}

int64_t window_offset_bytes(const Type& inside, const std::vector<int64_t>& starts) {
  const std::vector<int64_t> strides = dense_strides(inside.dims);
  int64_t offset = 0;
  for (size_t d = 0; d < starts.size(); ++d) offset += starts[d] * strides[d];
  return offset * static_cast<int64_t>(size_of(inside.dtype));
}

}  // namespace gangway
