// The groups in which devices of an installed plan exchange data: one for each row of a slice along
// the axes of a collective, and the gate, of which all devices of the plan are members. A device
// that runs several ranks is a member with each of them: members of one host exchange in its memory
// before the host exchanges with others, so ranks of one device reduce there first.
//
//   find_groups() -> for_each_group_area() -> link_groups()
//                    in the memory that        over the peers'
//                    the host offers
//
// Threads: reactor thread.
// Errors: kUnavailable if a peer's memory lacks an area, kUnimplemented for a group that a device
// can't join.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/host/laid_out_plan.h"
#include "executor/links/host_link.h"
#include "executor/work/bell.h"

namespace gangway {

// The memory of the host that a member belongs to.
using MemoryOf = std::function<PeerMemory&(const Member&)>;

std::vector<PlanGroup> find_groups(const CompiledHostPlan& plan);
// body(area, bytes) for the memory in which groups write for this member.
void for_each_group_area(const LaidOutPlan& plan, const Member& member,
                         const std::function<void(const std::string&, int64_t)>& body);
// Bytes that the member's groups take in the host's memory outside the device.
int64_t group_bytes(const LaidOutPlan& plan, const Member& member);
// Bytes that collectives need in a discrete device's own memory.
int64_t staging_bytes(const LaidOutPlan& plan, const PlanRank& rank);
// Adds the collectives of each rank to its share. `bell_of`: the bell of a device of this host.
void link_groups(const LaidOutPlan& plan, const MemoryOf& memory_of,
                 const std::function<Bell(uint32_t device)>& bell_of,
                 std::vector<LinkedShare>& shares);

}  // namespace gangway
