// The ranks of physical devices behind the slices of a plan, and the groups that they form.
//
// Invariant: every host derives the same members, groups and ranks from the same plan, without
// exchanging messages.
// Threads: pure.
// Errors: the plan keeps its rules (plan_check.h); what takes axes throws kInvalid for one that the
// mesh lacks.
// Cost: a host lists its own members, and those that meet them; along an outer axis of a mesh these
// may be all devices of the slice. A plan has few ranges of hosts beside its devices.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

// One member of a slice: an index into Plan::hosts, a device of that host, and the rank on it,
// since slices may put several ranks on a device. Rank 0 is in every slice that has the device,
// since a plan's work on one rank is one rank stream.
struct Member {
  uint32_t host = 0;
  uint32_t device = 0;
  uint32_t rank = 0;
  friend auto operator<=>(const Member&, const Member&) = default;
};

// The members of a slice by mesh device. Cost: O(ranges) to make, O(log ranges) to ask.
class SliceMembers {
 public:
  explicit SliceMembers(const PlanSlice& slice);
  Member at(uint32_t mesh_device) const;

 private:
  struct Piece {
    uint32_t begin = 0;  // The devices of the slice before this range.
    PlanRange range;
  };
  std::vector<Piece> pieces_;
  const uint32_t ranks_per_device_;
};

// The members of a plan on one host, ascending.
std::vector<Member> members_on(const Plan& plan, uint32_t host);

// The members of a plan on one host, counted. The members of all hosts in a row, ascending, are the
// ranks of the gate.
struct MembersOfHost {
  uint32_t host = 0;
  uint32_t devices = 0;
  uint32_t members = 0;
  uint32_t first_device = 0;  // The device of the lowest member.
  friend bool operator==(const MembersOfHost&, const MembersOfHost&) = default;
};
// Ascending by host; only hosts that have members. Cost: O(ranges * ranks on a device).
std::vector<MembersOfHost> members_by_host(const Plan& plan);

// Number of devices of the plan on the machine of a host, whichever of its hosts they belong to.
uint32_t devices_on_machine_of(const Plan& plan, uint32_t host);

// The mesh devices that meet along some axes: one of the groups of members_of_groups()
// (ir/types/axis_list.h).
struct GroupRow {
  uint32_t number = 0;            // Its index among all groups along these axes.
  std::vector<uint32_t> members;  // Mesh devices, by member.
  friend bool operator==(const GroupRow&, const GroupRow&) = default;
};
// The groups along `axes` ("data,expert") of some mesh devices, each once, ascending.
std::vector<GroupRow> rows_of(const Mesh& mesh, const std::string& axes,
                              const std::vector<uint32_t>& mesh_devices);
// How many devices each of these groups has.
uint32_t ranks_along(const Mesh& mesh, const std::string& axes);

}  // namespace gangway
