// A run's way through the controller: the client's frame in, prepare and grants out, completions
// in, the client's completion out.
//
// Threads: the caller's is the reactor.
#pragma once

namespace ratchet {

// So many hosts of two devices each, on all of which each client runs a program of its own. Hosts
// and clients are fakes: they answer at once, and what they do is not counted.
// False: not all runs ended.
bool count_controller(int hosts, int clients);

}  // namespace ratchet
