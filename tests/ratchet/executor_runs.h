// Counts a run's instructions in an executor: prepare and grant come in, and the completion goes
// out.
//
// Threads: the caller's is the reactor.
#pragma once

namespace ratchet {

// Counts with `hosts` hosts of two simulated devices each, which compute no values. Counts are for
// one host. Returns false if a run failed.
bool count_executors(int hosts);

}  // namespace ratchet
