// What a seed draws: a small cluster, programs on it, and what happens to them.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>

namespace gangway::history {

struct Drawn {
  int hosts = 3;     // Of two devices each; a program lies on four.
  int programs = 1;  // Each with a client of its own.
  // The controller is started again so often; then it enqueues the steps of all programs, so that
  // they go on.
  int restarts = 0;
  int losses = 0;  // Of hosts.
  // A host is lost only once the newest checkpoint came behind the newest state.
  bool losses_wait_for_new_states = false;
  bool hosts_stand_still = false;  // Some of the lost ones: for longer than the timeout.
  bool is_elastic = false;
  bool has_limits = false, has_cancels = false;
  bool has_new_states = false, releases = false;
  bool detaches = false, suspends = false, is_read = false;
  bool has_faults = false;  // Of links, frames and processes, which no host is lost by.
  uint64_t every = 6;       // Versions between two checkpoints.
  int64_t step_us = 200;
};
Drawn draw(uint64_t seed);
// "3 hosts, 2 programs, ..."
std::string to_string(const Drawn& drawn);

}  // namespace gangway::history
