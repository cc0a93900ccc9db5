// Meddlers (tests/support/net/frame_meddler.h) that change messages between the processes of a
// simulated cluster. Clients then see what they would see of a faulty controller or executor, and
// the checks of a simulation must notice it.
//
// Threads: the reactor's.
#pragma once

#include <string>

#include "tests/support/net/frame_meddler.h"

namespace gangway {

// An executor does not get the tenth prepare of all.
FrameMeddler leaves_out_a_prepare();
// The first client that gets a second output of a run gets a wrong one.
FrameMeddler changes_a_second_output();
// The first run whose outputs can be mistaken has those of the run that ended before it.
FrameMeddler tells_outputs_of_the_run_before();
// The third run that ends has failed, by what its client is told.
FrameMeddler tells_that_a_run_has_failed();
// Executors are not asked to uninstall plans.
FrameMeddler keeps_plans();
// The controller does not hear that runs past their time limit have ended.
FrameMeddler hides_ends_of_late_runs();
// A run that failed for the loss of a host ends under the name of another program's run.
FrameMeddler takes_one_run_for_another();
// Tickets of the first two ranges of a grant that have different ones are exchanged.
FrameMeddler swaps_tickets();
// One host takes each two grants of different plans, one behind the other, in the other order.
FrameMeddler crosses_grants(const std::string& host);
// Executors get the prepare of a run with the run's first grant, so a cancel may come before.
FrameMeddler holds_prepares_back();
// The first array that a run is to read is freed before.
FrameMeddler frees_before_a_read();
// Clients are told that no host writes any more for a copy that failed.
FrameMeddler tells_that_copies_are_settled();
// No process hears which of its messages have arrived.
FrameMeddler hides_acknowledgements();

}  // namespace gangway
