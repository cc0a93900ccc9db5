#include "ir/plan/plan_members.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "ir/types/axis_list.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Devices begin .. end - 1 of a host in one slice, with so many ranks on each.
struct DeviceSpan {
  uint32_t host = 0, begin = 0, end = 0, ranks = 0;
  friend auto operator<=>(const DeviceSpan&, const DeviceSpan&) = default;
};

// The devices of all slices, ascending by host and then by device; slices may share devices.
std::vector<DeviceSpan> spans_of(const Plan& plan) {
  std::vector<DeviceSpan> spans;
  for (const PlanSlice& slice : plan.slices) {
    for (const PlanRange& range : slice.ranges)
      spans.push_back({range.host, range.first, range.first + range.count, slice.ranks_per_device});
  }
  std::ranges::sort(spans);
  return spans;
}

// Number of devices that have at least so many ranks in one of a host's spans.
uint32_t devices_with(std::span<const DeviceSpan> spans, uint32_t ranks) {
  uint32_t count = 0, end = 0;
  for (const DeviceSpan& span : spans) {
    if (span.ranks < ranks || span.end <= end) continue;
    count += span.end - std::max(span.begin, end);
    end = span.end;
  }
  return count;
}

MembersOfHost counted(std::span<const DeviceSpan> spans) {
  MembersOfHost host{
      .host = spans[0].host, .devices = devices_with(spans, 1), .first_device = spans[0].begin};
  const uint32_t ranks = std::ranges::max(spans, {}, &DeviceSpan::ranks).ranks;
  for (uint32_t rank = 1; rank <= ranks; ++rank) host.members += devices_with(spans, rank);
  return host;
}

}  // namespace

SliceMembers::SliceMembers(const PlanSlice& slice) : ranks_per_device_(slice.ranks_per_device) {
  uint32_t begin = 0;
  pieces_.reserve(slice.ranges.size());
  for (const PlanRange& range : slice.ranges) {
    pieces_.push_back({begin, range});
    begin += range.count;
  }
}

Member SliceMembers::at(uint32_t mesh_device) const {
  const uint32_t device = mesh_device / ranks_per_device_;
  const auto behind = std::ranges::upper_bound(pieces_, device, {}, &Piece::begin);
  GW_ASSERT(behind != pieces_.begin() && device - (behind - 1)->begin < (behind - 1)->range.count,
            "mesh device ", mesh_device, " is beyond its slice");
  const Piece& piece = *(behind - 1);
  return {piece.range.host, piece.range.first + (device - piece.begin),
          mesh_device % ranks_per_device_};
}

std::vector<Member> members_on(const Plan& plan, uint32_t host) {
  std::set<Member> members;
  for (const DeviceSpan& span : spans_of(plan)) {
    if (span.host != host) continue;
    for (uint32_t device = span.begin; device < span.end; ++device) {
      for (uint32_t rank = 0; rank < span.ranks; ++rank) members.insert({host, device, rank});
    }
  }
  return {members.begin(), members.end()};
}

std::vector<MembersOfHost> members_by_host(const Plan& plan) {
  const std::vector<DeviceSpan> spans = spans_of(plan);
  std::vector<MembersOfHost> hosts;
  for (size_t begin = 0, end = 0; begin < spans.size(); begin = end) {
    while (end < spans.size() && spans[end].host == spans[begin].host) ++end;
    hosts.push_back(counted(std::span(spans).subspan(begin, end - begin)));
  }
  return hosts;
}

uint32_t devices_on_machine_of(const Plan& plan, uint32_t host) {
  uint32_t devices = 0;
  for (const MembersOfHost& other : members_by_host(plan)) {
    if (plan.machines.empty() || plan.machines[other.host] == plan.machines[host])
      devices += other.devices;
  }
  return devices;
}

std::vector<GroupRow> rows_of(const Mesh& mesh, const std::string& axes,
                              const std::vector<uint32_t>& mesh_devices) {
  const std::vector<int> along = axes_of(mesh, axes);
  std::map<int64_t, uint32_t> one_of;  // A device of each group, by the group's number.
  for (const uint32_t device : mesh_devices)
    one_of.try_emplace(group_along(mesh, along, device), device);
  std::vector<GroupRow> rows;
  for (const auto& [number, device] : one_of) {
    const std::vector<int64_t> devices = members_with(mesh, along, device);
    rows.push_back({static_cast<uint32_t>(number), {devices.begin(), devices.end()}});
  }
  return rows;
}

uint32_t ranks_along(const Mesh& mesh, const std::string& axes) {
  return static_cast<uint32_t>(members_along(mesh, axes_of(mesh, axes)));
}

}  // namespace gangway
