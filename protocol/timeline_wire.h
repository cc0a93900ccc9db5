// Reads and writes the newest events of a host's devices (control.capnp's HostTimeline), for the
// files of the rooms above that serve RPC.
//
// Threads: pure functions.
// Errors: read() throws kInvalid for a timeline that no host sends: an unknown name or mark, or
// more rows or events than the bounds below.
#pragma once

#include <cstddef>

#include "protocol/control.capnp.h"
#include "protocol/host_timeline.h"

namespace gangway {

// Rows of one host, whose devices have two rows each.
inline constexpr size_t kTimelineRowsMax = 4096;
inline constexpr size_t kTimelineEventsMax = size_t{1} << 20;

void write(wire::HostTimeline::Builder to, const TraceDump& trace);
HostTimeline read(wire::HostTimeline::Reader from);

}  // namespace gangway
