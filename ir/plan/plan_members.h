// The ranks of physical devices behind the slices of a plan, and the groups that they form.
//
// Invariant: every host derives the same members, groups and ranks from the same plan, without
// exchanging messages.
// Threads: pure.
// Errors: the plan keeps its rules (plan_check.h); what takes axes throws kInvalid for one that the
// mesh lacks.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

// One member of a slice: an index into Plan::hosts, a device of that host, and the rank on it,
// since slices may put several ranks on a device. Rank 0 is in every slice that has the device,
// since a plan's work on one rank is one lane.
struct Member {
  uint32_t host = 0;
  uint32_t device = 0;
  uint32_t rank = 0;
  friend auto operator<=>(const Member&, const Member&) = default;
};

// The members of a slice by mesh device.
std::vector<Member> slice_members(const PlanSlice& slice);
// All members of a plan, each once, ascending: rank order of the gate.
std::vector<Member> plan_members(const Plan& plan);

// The mesh devices that meet along `axes` ("data,expert"), one vector for each group, by member: in
// row-major order over the axes as listed (ir/types/axis_list.h).
std::vector<std::vector<uint32_t>> groups_along(const Mesh& mesh, const std::string& axes);
// How many devices each of these groups has.
uint32_t ranks_along(const Mesh& mesh, const std::string& axes);

}  // namespace gangway
