// SharedTables: the tables that all programs of a controller share.
//
//   hosts ◄── slices ◄── slice_queue, quotas      which devices and memory each program has
//     ▲         ▲
//   objects   plans ◄── runs, transfers            what programs do with them
//                         ▲
//                     shared_states                states that are read from outside the program
//
// A table at the head of an arrow knows nothing of the one at its tail. Where it has news for that
// one it calls a function that the constructor gives it. State of one program alone is a member of
// its LiveProgram (program.h).
//
// Threads: the reactor's thread. Each table's header says what suspends.
// Ownership: what the callbacks refer to outlives the tables, or is not called once they are being
// destroyed. Members are destroyed in reverse order: a table goes before those that it refers to.
// Errors: the constructor throws kInvalid for an unknown policy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/owners/owner_use.h"
#include "controller/owners/program_names.h"
#include "controller/plans/plans.h"
#include "controller/programs/shared_states.h"
#include "controller/scheduler/host_transfers.h"
#include "controller/scheduler/runs.h"
#include "controller/slices/owner_quotas.h"
#include "controller/slices/slice_queue.h"
#include "runtime/fibers/background.h"
#include "runtime/fibers/reactor.h"
#include "runtime/observe/metrics.h"

namespace gangway {

struct SharedTables {
  struct Options {
    OwnerBounds owner_bounds;
    std::string policy;                     // One of policy_names().
    std::shared_ptr<ChargeLog> charge_log;  // Null: charges are not logged.
    std::shared_ptr<LandingLog> landings;   // Null: landings are not logged.
  };
  // None of them may suspend.
  struct Callbacks {
    // A run has left the run table; see RunTable::Callbacks.
    std::function<void(SessionId, RunDoneFrame, bool is_stopped)> run_ended;
    // A client's host transfer has ended.
    HostTransfers::Ended transfer_ended;
    std::function<void(SessionId, const std::string&)> warn;  // Gets a line for a program's user.
    std::function<void(SliceId)> states_placed;               // The slice has new states.
  };
  SharedTables(Reactor& reactor, Options options, Callbacks callbacks);
  SharedTables(const SharedTables&) = delete;

  Metrics metrics;  // For each host: runs, and (counted in its stream) frames and bytes.
  // Each owner's use of this process's resources, also for sessions that are closed.
  OwnerUse owner_use;
  ProgramNames names;
  HostTable hosts;
  SliceTable slices;
  OwnerQuotas quotas;
  SliceQueue slice_queue;
  ObjectTable objects;
  Background background;  // Threads for what takes long: programs are read and compiled there.
  PlanTable plans;
  RunTable runs;
  HostTransfers transfers;
  SharedStateTable shared_states;
};

}  // namespace gangway
