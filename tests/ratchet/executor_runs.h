// A run's way through executors: prepare and grant in, completion out.
//
// Threads: the caller's is the reactor.
#pragma once

namespace ratchet {

// So many hosts of two simulated devices each, which compute no values. Counts are for one host.
// False: a run failed.
bool count_executors(int hosts);

}  // namespace ratchet
