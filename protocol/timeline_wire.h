// What devices of a host did last (control.capnp's HostTimeline), to C++ and back. For the files of
// the rooms above that serve RPC.
//
// Threads: pure functions.
// Errors: kInvalid for what a host does not send: names and marks that there are not, more rows or
// events than the bounds.
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
