// Clients that make all calls that clients may make, in an order drawn from a seed, on a simulated
// cluster of 2 to 8 hosts with faults drawn from the same seed. Devices compute real values: each
// run of a program adds one to a state and outputs its value, which shows runs that are lost, done
// twice or done out of turn.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "controller/scheduler/gangs/charge_log.h"
#include "sim/faults.h"
#include "tests/support/net/frame_meddler.h"

namespace gangway {

// Creates the meddler of one simulation, for example one of tests/sim/meddling.h.
using NewMeddler = std::function<FrameMeddler()>;

struct ChaosReport {
  std::string scene;                  // The cluster and the faults that happened.
  std::vector<std::string> problems;  // Violations found; empty if there are none.
  std::vector<std::string> errors;    // Errors that clients got.
  int runs = 0, done = 0;             // Sums over all clients.
  std::set<FaultKind> faults;         // Kinds of faults that happened.
  int charged = 0;                    // Programs in the log of charges.
  int meetings = 0;                   // Steps in the log of devices that are done in one order.
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

// Problems of programs that were charged another time for their turns than the turns took.
std::vector<std::string> wrong_charges(const ChargeLog& log);

// Plays the scene of a seed, with a meddler between the processes unless `meddler` is null. Throws
// the same error as require_machine().
ChaosReport chaos(uint64_t seed, const NewMeddler& meddler = nullptr,
                  ChaosScene scene = ChaosScene::kAny);

}  // namespace gangway
