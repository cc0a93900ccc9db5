// RunMemory: the controller's memory for the arguments of a program's runs.
//
// The arguments of a run stay in the controller until it has ended. A client's credits bound the
// number of its runs, and this bounds their size, by what the program's owner may have of the
// controller's memory. Small runs are not counted.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the OwnerUse outlives it.
// Errors: none are thrown; refusal() returns one.
// Cost: O(1) a small run.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "controller/owners/owner_use.h"
#include "protocol/messages.h"
#include "runtime/base/error.h"

namespace gangway {

class RunMemory {
 public:
  RunMemory(OwnerUse& use, std::string owner) : use_(use), owner_(std::move(owner)) {}
  RunMemory(const RunMemory&) = delete;

  // Takes memory for the run's arguments. A run for which there is none loses its arguments.
  void hold(RunFrame& run);
  // Why the run may not go: there was no memory for its arguments. Asked once for each run.
  std::optional<Error> refusal(RunId run);
  void ended(RunId run);

 private:
  OwnerUse& use_;
  const std::string owner_;
  std::map<RunId, OwnerUse::Hold> held_;  // Large runs that have not ended.
  std::set<RunId> over_;                  // Runs for which there was no memory.
};

}  // namespace gangway
