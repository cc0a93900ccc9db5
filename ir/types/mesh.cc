#include "ir/types/mesh.h"

namespace gangway {

int64_t Mesh::devices() const {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) {
    // More than fit in the number are more than there are.
    if (__builtin_mul_overflow(count, axis.size, &count)) return INT64_MAX;
  }
  return count;
}

int Mesh::axis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Mesh::coordinate(int64_t device, int axis) const {
  for (size_t i = axes.size() - 1; i > static_cast<size_t>(axis); --i) device /= axes[i].size;
  return device % axes[static_cast<size_t>(axis)].size;
}

std::string to_string(const Mesh& mesh) {
  std::string text = "{";
  for (const MeshAxis& axis : mesh.axes) {
    if (text.size() > 1) text += ", ";
    text += axis.name + ": " + std::to_string(axis.size);
  }
  return text + "}";
}

}  // namespace gangway
