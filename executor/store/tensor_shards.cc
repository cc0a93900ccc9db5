#include "executor/store/tensor_shards.h"

namespace gangway {

ShardRuns::ShardRuns(const TensorShards& tensor, uint32_t mesh_device) {
  const Dims &global = tensor.type.dims, &local = tensor.local.dims;
  std::vector<int64_t> starts(global.size(), 0);
  for (size_t dim = 0; dim < global.size(); ++dim) {
    int64_t part = global[dim];
    for (int axis : cut_axes(tensor.sharding, static_cast<int>(dim))) {
      part /= tensor.mesh.axes[static_cast<size_t>(axis)].size;
      starts[dim] += tensor.mesh.coordinate(mesh_device, axis) * part;
    }
  }
  bytes_ = static_cast<int64_t>(size_of(tensor.type.dtype));
  std::vector<int64_t> strides(global.size());
  int64_t stride = bytes_;
  for (size_t d = global.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= global[d];
    offset_ += starts[d] * strides[d];
  }
  // Trailing dimensions that are whole, and the first that is cut, make one contiguous run.
  size_t outer = global.size();
  while (outer > 0) {
    --outer;
    bytes_ *= local[outer];
    if (local[outer] != global[outer]) break;
  }
  for (size_t d = 0; d < outer; ++d) {
    counts_.push_back(local[d]);
    strides_.push_back(strides[d]);
    total_ *= local[d];
  }
}

bool is_first_copy(const TensorShards& tensor, uint32_t mesh_device) {
  for (size_t axis = 0; axis < tensor.sharding.size(); ++axis) {
    if (tensor.sharding[axis].kind == PlacementKind::kShard) continue;
    if (tensor.mesh.coordinate(mesh_device, static_cast<int>(axis)) != 0) return false;
  }
  return true;
}

}  // namespace gangway
