// Links of the devices of an installed plan to their peers: the memory in which this host receives,
// and the collectives, gates and channels over its own memory and the peers'.
//
//   areas_of() -> offered to the peers -> link_devices() over theirs -> place_links()
//
// Threads: reactor thread.
// Errors: kUnavailable if a peer's memory lacks an area, kUnimplemented for a group that a device
// can't join.
#pragma once

#include <cstdint>
#include <functional>

#include "executor/host/host_plan.h"
#include "executor/host/plan_groups.h"

namespace gangway {

// Bytes of a device in the memory that peers write, and bytes that its groups need outside it.
int64_t shared_bytes(const HostPlan& plan, const DevicePlan& device);
// Bytes that a device receives over links in one run, in its own memory.
int64_t own_inbox_bytes(const DevicePlan& device);
AreaList areas_of(const HostPlan& plan);
void link_devices(HostPlan& plan, const MemoryOf& memory_of,
                  const std::function<Bell(uint32_t device)>& bell_of);
// Sets where the links of the plan write to; memory must be allocated.
void place_links(HostPlan& plan);

}  // namespace gangway
