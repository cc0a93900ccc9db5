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

namespace {

// The axes that are not in the list, in the order of the mesh: a group is numbered in row-major
// order over them, so that groups come by their first device.
std::vector<int> axes_besides(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<int> others;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) others.push_back(axis);
  }
  return others;
}

// How far apart two devices are that are neighbours along the axis.
int64_t stride_of(const Mesh& mesh, int axis) {
  int64_t stride = 1;
  for (size_t behind = static_cast<size_t>(axis) + 1; behind < mesh.axes.size(); ++behind)
    stride *= mesh.axes[behind].size;
  return stride;
}

}  // namespace

int64_t group_along(const Mesh& mesh, const std::vector<int>& axes, int64_t device) {
  return member_along(mesh, axes_besides(mesh, axes), device);
}

std::vector<int64_t> members_with(const Mesh& mesh, const std::vector<int>& axes, int64_t device) {
  int64_t first = device;
  for (int axis : axes) first -= mesh.coordinate(device, axis) * stride_of(mesh, axis);
  std::vector<int64_t> members{first};
  members.reserve(static_cast<size_t>(members_along(mesh, axes)));
  // The list's last axis is the fastest, so each axis repeats what those behind it gave.
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const int64_t stride = stride_of(mesh, *axis);
    const size_t before = members.size();
    for (int64_t at = 1; at < mesh.axes[static_cast<size_t>(*axis)].size; ++at) {
      for (size_t m = 0; m < before; ++m) members.push_back(members[m] + at * stride);
    }
  }
  return members;
}

std::vector<std::vector<int64_t>> members_of_groups(const Mesh& mesh,
                                                    const std::vector<int>& axes) {
  const std::vector<int> others = axes_besides(mesh, axes);
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
