// The areas of a plan in the memory that its host offers to peers: what its groups and its receives
// need there. Hosts find one another's areas by name.
//
// Threads: pure.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/host/laid_out_plan.h"
#include "executor/links/area_list.h"
#include "executor/transfers/transfer_channel.h"
#include "ir/plan/plan_members.h"

namespace gangway {

// Bytes of a rank in the memory that peers write, and bytes that its groups need outside it.
int64_t shared_bytes(const LaidOutPlan& plan, const Member& member);
// Bytes that a rank receives over links in one run, in its device's own memory.
int64_t own_inbox_bytes(const LaidOutShare& share);
AreaList areas_of(const LaidOutPlan& plan);

// The other hosts that this one writes to, ascending: members of its groups, and the other ends of
// its transfers.
std::vector<uint32_t> hosts_written(const LaidOutPlan& plan);

// The two ends of an entry that sends or receives.
struct TransferEnds {
  uint32_t receive = 0;  // The node that receives.
  uint32_t mesh_device = 0;
  Member sender, receiver;
};
TransferEnds ends_of(const LaidOutShare& share, const Entry& entry);

// Names of the areas of a receive, and the slots of its inbox.
std::string inbox_area(uint32_t node, uint32_t mesh_device);
std::string released_area(uint32_t node, uint32_t mesh_device);
inline constexpr int64_t kReleasedBytes = sizeof(std::atomic<uint64_t>);
TransferSlots slots_of(const PlanOnHost& plan, uint32_t receive, uint32_t mesh_device);

}  // namespace gangway
