// Clients that do what clients may do, in an order drawn from a seed, on a simulated cluster of 2
// to 8 hosts on which things go wrong, drawn from the same seed. Devices compute real values: each
// run of a program adds one to a state and says its value, so a run that is lost, done twice or
// done out of turn shows.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/resources/planted_bugs.h"
#include "executor/transfers/planted_bugs.h"
#include "runtime/net/frame_options.h"

namespace gangway {

// Bugs that it is to find.
struct PlantedBugs {
  PlantedFrameBugs frames;
  PlantedControllerBugs controller;
  PlantedTransferBugs transfers;
  // A device compares the tickets of collectives with those of their own lane only.
  bool orders_collectives_by_lane = false;
};

struct ChaosReport {
  std::string scene;                  // The cluster and the faults that happened.
  std::vector<std::string> problems;  // What must not be; empty: all is well.
  std::vector<std::string> errors;    // That clients were told of.
  int runs = 0, done = 0;             // Of all clients.
  uint64_t replay_hash = 0;
};

enum class ChaosScene : uint8_t {
  kAny,
  // Four clients that wait for each result, on parts of four hosts or more, one of which is killed
  // while they run: the others still tell of runs that have ended without them.
  kHostIsKilled,
};

// Throws kOverloaded where an error says what this machine lacks (addresses, stacks, descriptors):
// inside a simulation that would be an error like another, and the scene another one.
void require_machine(const std::string& error);

// Throws as require_machine().
ChaosReport chaos(uint64_t seed, const PlantedBugs& planted = {},
                  ChaosScene scene = ChaosScene::kAny);

}  // namespace gangway
