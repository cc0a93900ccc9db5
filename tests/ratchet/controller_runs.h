// Counts a run's instructions in the controller: the client's frame comes in, prepare and grants go
// out, completions come in, and the client's completion goes out.
//
// Threads: the caller's is the reactor.
#pragma once

namespace ratchet {

// Counts with `hosts` hosts of two devices each, on all of which each client runs a program of its
// own. Hosts and clients are fakes: they answer at once, and their work is not counted. Returns
// false if not all runs ended.
bool count_controller(int hosts, int clients);

}  // namespace ratchet
