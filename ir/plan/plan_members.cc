#include "ir/plan/plan_members.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/error.h"

namespace gangway {
namespace {

// By mesh axis: whether it is one of `axes`.
std::vector<bool> axes_of(const Mesh& mesh, const std::string& axes) {
  std::vector<bool> along(mesh.axes.size(), false);
  for (size_t begin = 0; begin <= axes.size();) {
    const size_t end = std::min(axes.find(',', begin), axes.size());
    const int axis = mesh.axis(axes.substr(begin, end - begin));
    GW_REQUIRE(axis >= 0, "plan: a collective runs along axis \"", axes.substr(begin, end - begin),
               "\", which its mesh ", to_string(mesh), " lacks");
    along[static_cast<size_t>(axis)] = true;
    begin = end + 1;
  }
  return along;
}

}  // namespace

std::vector<Member> slice_members(const PlanSlice& slice) {
  std::vector<Member> members;
  for (const PlanRange& range : slice.ranges) {
    for (uint32_t d = 0; d < range.count; ++d) {
      for (uint32_t rank = 0; rank < slice.ranks_per_device; ++rank)
        members.push_back({range.host, range.first + d, rank});
    }
  }
  return members;
}

std::vector<Member> plan_members(const Plan& plan) {
  std::set<Member> all;
  for (const PlanSlice& slice : plan.slices) {
    for (const Member& member : slice_members(slice)) all.insert(member);
  }
  return {all.begin(), all.end()};
}

std::vector<std::vector<uint32_t>> groups_along(const Mesh& mesh, const std::string& axes) {
  const std::vector<bool> along = axes_of(mesh, axes);
  std::map<std::vector<int64_t>, std::vector<uint32_t>> groups;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<int64_t> rest;
    for (size_t axis = 0; axis < along.size(); ++axis) {
      if (!along[axis]) rest.push_back(mesh.coordinate(device, static_cast<int>(axis)));
    }
    groups[rest].push_back(static_cast<uint32_t>(device));
  }
  std::vector<std::vector<uint32_t>> result;
  result.reserve(groups.size());
  for (auto& [rest, devices] : groups) result.push_back(std::move(devices));
  return result;
}

uint32_t ranks_along(const Mesh& mesh, const std::string& axes) {
  const std::vector<bool> along = axes_of(mesh, axes);
  int64_t ranks = 1;
  for (size_t axis = 0; axis < along.size(); ++axis) {
    if (along[axis]) ranks *= mesh.axes[axis].size;
  }
  return static_cast<uint32_t>(ranks);
}

}  // namespace gangway
