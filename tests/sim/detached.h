// Plays detached programs of a simulated cluster whose clients may lose their connections at any
// moment, and notes violations.
//
// Threads: the calling thread; for detach_under_faults() one that has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/program.h"
#include "sim/sim_cluster.h"

namespace gangway {

// Inputs lr and step, state w, output loss, on four devices: a loss that depends, bit for bit, on
// every step before.
Program falling();

// The losses that a client gets if it enqueues `steps` steps itself, with lr 0.5 and step from 0
// on.
std::vector<float> losses_of_a_client(SimCluster& cluster, int steps);

struct DetachReport {
  std::vector<std::string> problems;  // Violations found; empty if there are none.
  int64_t steps = 0;                  // Number of repeated steps.
  int attached = 0;                   // Number of times that a client attached to a program.
};

// Plays `programs` programs, each with its own seed, one after another. Clients repeat each
// program, detach from it and attach to it several times while connections are cut. Its last loss
// must be that of a client that enqueued the steps itself, and nothing may be left when it is
// closed.
DetachReport detach_under_faults(uint64_t seed, int programs);

}  // namespace gangway
