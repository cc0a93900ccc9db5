#include "executor/devices/lower/random_part.h"

#include "runtime/base/error.h"

namespace gangway {

RandomPart::RandomPart(const NodeView& node) : whole_(node.out()) {
  const std::vector<int64_t>& offset = node.attrs().ints("offset");
  if (!offset.empty()) offset_ = offset[0];
  const auto placements = parse_axis_placements(node.attrs().text("placements"));
  GW_ASSERT(placements.has_value(), "a random op that the verifier would not accept");
  is_whole_ = placements->empty();
  if (!is_whole_) whole_.dims = node.attrs().ints("whole");
  cut_ = {node.function.mesh, resolve(node.function.mesh, *placements)};

  const Dims& part = node.out().dims;
  std::vector<int64_t> sizes, strides;  // Inner dimensions first.
  int64_t stride = 1;
  for (size_t d = part.size(); d-- > 0; stride *= whole_.dims[d]) {
    if (part[d] == 1) continue;
    if (sizes.empty() ? stride == cols_ : strides.back() * sizes.back() == stride) {
      (sizes.empty() ? cols_ : sizes.back()) *= part[d];
    } else {
      sizes.push_back(part[d]);
      strides.push_back(stride);
    }
  }
  sizes_.assign(sizes.rbegin(), sizes.rend());
  strides_.assign(strides.rbegin(), strides.rend());
}

std::vector<int64_t> RandomPart::firsts() const {
  std::vector<int64_t> firsts;
  const int64_t devices = is_whole_ ? 1 : cut_.mesh.devices();
  for (int64_t device = 0; device < devices; ++device) firsts.push_back(first_of(device));
  return firsts;
}

int64_t RandomPart::first_of(int64_t mesh_device) const {
  const Dims begin = box_of(whole_, cut_, mesh_device).begin;
  int64_t at = 0;
  for (size_t d = 0; d < begin.size(); ++d) at = at * whole_.dims[d] + begin[d];
  return offset_ + at;
}

}  // namespace gangway
