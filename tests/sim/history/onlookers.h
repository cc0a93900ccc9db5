// Clients that use other clients' programs, and record results in the history: one reads their
// states, one suspends the programs for a while.
//
// Threads: in fibers of the stage's reactor, until the stage is over; both suspend.
#pragma once

#include "tests/sim/history/stage.h"

namespace gangway::history {

void read_along(Stage& stage, Rng rng);
void suspend_at_random(Stage& stage, Rng rng);

}  // namespace gangway::history
