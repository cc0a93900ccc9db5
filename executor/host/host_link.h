// How the devices of an installed plan meet their peers: the shared segment in which this host
// receives, and the collectives, gates and channels over its own and the peers' segments.
//
//   make_segment() -> offered to the peers -> link_device() over theirs -> place_links()
//
// Threads: reactor thread.
// Errors: kUnavailable where a peer's segment lacks an area, kUnimplemented for a group that a
// device can't join.
#pragma once

#include <cstdint>
#include <functional>

#include "executor/host/host_plan.h"
#include "executor/work/bell.h"

namespace gangway {

// What a device has in the segment.
int64_t shared_bytes(const HostPlan& plan, const DevicePlan& device);
// What collectives need of a discrete device's own memory.
int64_t staging_bytes(const HostPlan& plan, const DevicePlan& device);
// What a device receives over links, in one run: in its own memory.
int64_t own_inbox_bytes(const DevicePlan& device);
SharedSegment make_segment(const HostPlan& plan);
using BellOf = std::function<Bell(const Member&)>;
void link_device(HostPlan& plan, DevicePlan& device, const BellOf& bell_of);
// Once memory is allocated: where the links of the plan lead.
void place_links(HostPlan& plan);

}  // namespace gangway
