// The entries that one rank of a plan replays, in ticket order, and what follows from them: its
// positions, its outputs, and which of its slices the host reports.
//
// Threads: pure.
// Cost: O(entries), once.
#pragma once

#include "executor/replay/device_plan.h"
#include "ir/plan/positions.h"

namespace gangway {

// The share has its functions and its layout.
void add_entries(LaidOutShare& share, const Positions& positions);

}  // namespace gangway
