#include "controller/programs/elastic.h"

#include <optional>

#include "ir/transforms/axis_size.h"

namespace gangway {

bool Shrinking::next() {
  for (; axis_ < elastic_.size(); ++axis_) {
    if (halve(elastic_[axis_])) return true;
  }
  return false;
}

// False if the axis can't be halved in some program.
bool Shrinking::halve(const std::string& axis) {
  const auto size_now = [this](const MeshAxis& of) {
    const auto changed = sizes_.find(of.name);
    return changed == sizes_.end() ? of.size : changed->second;
  };
  std::optional<int64_t> half;
  std::vector<uint32_t> axes;
  for (const ProgramOnSlice& one : on_) {
    const Mesh& mesh = one.program->slices[one.slice].mesh;
    const int at = mesh.axis(axis);
    if (at < 0) return false;
    const int64_t size = size_now(mesh.axes[static_cast<size_t>(at)]);
    if (size % 2 != 0 || (half && *half != size / 2)) return false;
    half = size / 2;
    axes.clear();
    for (const MeshAxis& other : mesh.axes)
      axes.push_back(static_cast<uint32_t>(other.name == axis ? *half : size_now(other)));
  }
  if (!half || (shape_.devices / 2) % shape_.ranks_per_device != 0) return false;
  shape_.devices /= 2;
  if (!shape_.axes.empty()) shape_.axes = std::move(axes);
  sizes_[axis] = *half;
  return true;
}

std::shared_ptr<const Program> Shrinking::shrunk(const ProgramOnSlice& one) const {
  std::shared_ptr<const Program> program = one.program;
  for (const auto& [axis, size] : sizes_)
    program = std::make_shared<const Program>(with_axis_size(*program, one.slice, axis, size));
  return program;
}

}  // namespace gangway
