#include "ir/plan/plan_members.h"

#include <set>

#include "ir/types/axis_list.h"

namespace gangway {

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
  std::vector<std::vector<uint32_t>> groups;
  for (const std::vector<int64_t>& devices : members_of_groups(mesh, axes_of(mesh, axes)))
    groups.emplace_back(devices.begin(), devices.end());
  return groups;
}

uint32_t ranks_along(const Mesh& mesh, const std::string& axes) {
  return static_cast<uint32_t>(members_along(mesh, axes_of(mesh, axes)));
}

}  // namespace gangway
