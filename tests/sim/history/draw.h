// Draws a scene from a seed: a small cluster, its programs, and what happens to them.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>

namespace gangway::history {

struct Drawn {
  int hosts = 3;     // Hosts of two devices; a program has four.
  int programs = 1;  // Each has a client of its own.
  // Number of restarts of the controller. If not 0, the controller enqueues the steps of all
  // programs, so that they go on behind a restart.
  int restarts = 0;
  int losses = 0;  // Number of lost hosts.
  // A host is lost only after a checkpoint that is newer than the newest state's first version.
  bool losses_wait_for_new_states = false;
  bool hosts_stand_still = false;  // Some lost hosts: longer than the timeout.
  bool is_elastic = false;
  bool has_limits = false, has_cancels = false;
  bool has_new_states = false, releases = false;
  bool detaches = false, suspends = false, is_read = false;
  bool has_faults = false;  // Faults of links, frames, processes: no host is lost.
  uint64_t every = 6;       // Versions between two checkpoints.
  int64_t step_us = 200;
};
Drawn draw(uint64_t seed);
// "3 hosts, 2 programs, ..."
std::string to_string(const Drawn& drawn);

}  // namespace gangway::history
