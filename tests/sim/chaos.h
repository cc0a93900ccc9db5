// Clients that make all calls that clients may make, in an order drawn from a seed, on a simulated
// cluster of 2 to 8 hosts with faults drawn from the same seed. Devices compute real values: each
// run of a program adds one to a state and outputs its value, which shows runs that are lost, done
// twice or done out of turn.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/hosts/planted_bugs.h"
#include "executor/transfers/planted_bugs.h"
#include "runtime/net/frame_options.h"

namespace gangway {

// Bugs that chaos() must find.
struct PlantedBugs {
  PlantedFrameBugs frames;
  PlantedControllerBugs controller;
  PlantedTransferBugs transfers;
  // A device compares the tickets of collectives with those of their own lane only.
  bool orders_collectives_by_lane = false;
};

struct ChaosReport {
  std::string scene;                  // The cluster and the faults that happened.
  std::vector<std::string> problems;  // Violations found; empty if there are none.
  std::vector<std::string> errors;    // Errors that clients got.
  int runs = 0, done = 0;             // Sums over all clients.
  uint64_t replay_hash = 0;
};

enum class ChaosScene : uint8_t {
  kAny,
  // Four clients that wait for each result, on parts of four hosts or more, one of which is killed
  // while they run: the others still report runs that have ended without them.
  kHostIsKilled,
};

// Throws kOverloaded if the error's text says that this machine lacks addresses, stacks or
// descriptors: a simulation would treat this like any other error, and the scene would change.
void require_machine(const std::string& error);

// Plays the scene of a seed. Throws the same error as require_machine().
ChaosReport chaos(uint64_t seed, const PlantedBugs& planted = {},
                  ChaosScene scene = ChaosScene::kAny);

}  // namespace gangway
