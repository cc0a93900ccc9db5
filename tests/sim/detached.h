// Detached programs of a simulated cluster, whose clients lose their connections at any moment:
// what must not be is noted.
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

// What a client is told that enqueues so many steps by itself: with lr 0.5, and step from 0 on.
std::vector<float> losses_of_a_client(SimCluster& cluster, int steps);

struct DetachReport {
  std::vector<std::string> problems;  // Empty: all is well.
  int64_t steps = 0;                  // That were repeated.
  int attached = 0;                   // How often a program was attached to.
};

// So many programs, of other seeds, one after another: each is repeated, detached from and attached
// to several times while connections are cut; its last loss is that of a client that enqueued its
// steps, and when it is closed nothing is left.
DetachReport detach_under_faults(uint64_t seed, int programs);

}  // namespace gangway
