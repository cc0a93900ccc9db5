#include "ir/types/axis_list.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/quote.h"

namespace gangway {

std::vector<std::string_view> split_axes(std::string_view axes) {
  std::vector<std::string_view> names;
  for (size_t begin = 0; begin <= axes.size();) {
    const size_t end = std::min(axes.find(',', begin), axes.size());
    names.push_back(axes.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::optional<std::string> axes_mistake(std::string_view axes) {
  if (axes.empty()) return "is empty: expected names of mesh axes";
  std::vector<std::string_view> names = split_axes(axes);
  std::ranges::sort(names);
  if (names.front().empty()) {
    return cat("has an empty name: expected names of mesh axes, joined by commas, got ",
               internal::quote(axes));
  }
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return std::nullopt;
  return cat("names ", internal::quote(*twice), " twice: expected different mesh axes, got ",
             internal::quote(axes));
}

std::vector<int> axes_of(const Mesh& mesh, std::string_view axes) {
  std::vector<int> positions;
  for (std::string_view name : split_axes(axes)) {
    positions.push_back(mesh.axis(name));
    GW_REQUIRE(positions.back() >= 0, "axes: ", internal::quote(name),
               " is no axis of the mesh: expected one of ", to_string(mesh));
  }
  return positions;
}

int64_t members_along(const Mesh& mesh, const std::vector<int>& axes) {
  int64_t members = 1;
  for (int axis : axes) members *= mesh.axes[static_cast<size_t>(axis)].size;
  return members;
}

int64_t member_along(const Mesh& mesh, const std::vector<int>& axes, int64_t device) {
  int64_t member = 0;
  for (int axis : axes)
    member = member * mesh.axes[static_cast<size_t>(axis)].size + mesh.coordinate(device, axis);
  return member;
}

std::vector<std::vector<int64_t>> members_of_groups(const Mesh& mesh,
                                                    const std::vector<int>& axes) {
  std::vector<int> others;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) others.push_back(axis);
  }
  // Row-major over the other axes, so that groups come by their first device.
  std::vector<std::vector<int64_t>> groups(
      static_cast<size_t>(members_along(mesh, others)),
      std::vector<int64_t>(static_cast<size_t>(members_along(mesh, axes))));
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const auto group = static_cast<size_t>(member_along(mesh, others, device));
    groups[group][static_cast<size_t>(member_along(mesh, axes, device))] = device;
  }
  return groups;
}

}  // namespace gangway
