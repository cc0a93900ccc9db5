// does_not_fit(): the error for a program for which some device has too little memory: how much is
// short and where, who holds what there, and what would fit.
//
//   program "step" does not fit: needs 96.0 MiB (states 64.0 MiB, temporaries 16.0 MiB, inputs and
//   outputs of 2 runs 16.0 MiB) on host-0/device 1, where 40.0 MiB of 128.0 MiB are free: 56.0 MiB
//   short; client 3 of ada holds 88.0 MiB
//     hint: let other programs go; or a mesh with data=16 instead of 2: states cut over it, 64.0
//     MiB here, fall as 1/n; or allocate elsewhere: 4 other devices have 96.0 MiB free
//
// Three cases: others hold it now (kOverloaded); these devices are too small even when they are
// empty, but others of the cluster are not; and no device of the cluster is large enough (both
// kInvalid: waiting does not help). Proposals are computed from the needs that hosts reported, and
// made only if they would fit on all devices of the program. They assume that temporaries and
// buffers of runs do not grow with the mesh, so they are estimates.
//
// Temporaries of an overlaid program need room only where the region that such programs share is
// smaller. Where a program would fit if temporaries were overlaid, the error proposes that too.
//
// Threads: the reactor's thread.
// Cost: O(devices of the cluster + devices and states of the program).
#pragma once

#include "controller/plans/plans.h"

namespace gangway {

// Arenas of programs whose arenas are not overlaid.
struct OwnArenas {
  int64_t all = 0, largest = 0;
};

// `short_of`: what HostTable::reserve() or reserve_overlaid() returned for record.needs; `arenas`:
// those of other programs on the record's devices.
Error does_not_fit(const PlanRecord& record, const HostTable& hosts, const Shortage& short_of,
                   const std::map<DeviceRef, OwnArenas>& arenas = {});

}  // namespace gangway
