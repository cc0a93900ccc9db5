#include "ir/types/axis_list.h"
#include "ir/verify/verify_internal.h"

namespace gangway::internal {

std::optional<std::string> collective_mistake(const Mesh& mesh, const Node& node) {
  const AttrValue* list = node.attrs.find("axes");
  const auto* axes = std::get_if<std::string>(list != nullptr ? list : node.attrs.find("axis"));
  if (axes == nullptr) return std::nullopt;  // The rule has said so.
  for (std::string_view axis : split_axes(*axes)) {
    if (mesh.axis(axis) < 0)
      return cat("axis ", shown(axis), " is not in the mesh: expected one of ", to_string(mesh));
  }
  const int64_t members = members_along(mesh, axes_of(mesh, *axes));
  if (const auto* parts = std::get_if<int64_t>(node.attrs.find("parts"));
      parts != nullptr && *parts != members) {
    return cat("parts differs from the mesh: expected ", members, ", the devices along ", *axes,
               " of ", to_string(mesh), ", got ", *parts);
  }
  if (const auto* root = std::get_if<int64_t>(node.attrs.find("root"));
      root != nullptr && *root >= members) {
    return cat("root is out of range: expected 0 to ", members - 1, ", the members along ", *axes,
               " of ", to_string(mesh), ", got ", *root);
  }
  return std::nullopt;
}

}  // namespace gangway::internal
