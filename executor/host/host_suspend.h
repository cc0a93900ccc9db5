// StateMoves: takes programs off their devices while they are suspended, and brings them back.
// Their states go to host memory, and all else that their plans have on devices is freed. Data with
// device addresses in it (the frames of runs) is dropped, and built again when the program comes
// back.
//
// Threads: reactor thread; devices copy on their own.
// Errors: kUnavailable while a run or copy of the programs is under way, kOverloaded if there is no
// room. Either everything is moved or nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "executor/host/host_devices.h"
#include "executor/host/host_plans.h"
#include "executor/host/host_runs.h"
#include "executor/store/host_budget.h"
#include "executor/store/state_store.h"
#include "protocol/install.h"
#include "runtime/fibers/future.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class StateMoves {
 public:
  StateMoves(Reactor& reactor, HostDevices& devices, StateStore& states, HostBudget& budget,
             HostPlans& plans, HostRuns& runs);

  // Ready when all is moved, with the bytes of host memory that the states take.
  Future<int64_t> move_states(const MoveRequest& request) {
    return request.to_host ? move_to_host(request) : move_to_devices(request);
  }

 private:
  struct Move;

  Future<int64_t> move_to_host(const MoveRequest& request);
  Future<int64_t> move_to_devices(const MoveRequest& request);
  std::shared_ptr<Move> begin_move(const MoveRequest& request);
  void require_idle(const MoveRequest& request) const;
  void copy_shards(const std::shared_ptr<Move>& move);
  void shard_copied(const std::shared_ptr<Move>& move, const Error* error);
  void end_move(Move& move);
  void left_devices(Move& move);
  void take_memory(Move& move);
  void back_on_devices(Move& move);
  void leave_again(Move& move);

  Reactor& reactor_;
  HostDevices& devices_;
  StateStore& states_;
  HostBudget& budget_;
  HostPlans& plans_;
  HostRuns& runs_;
};

}  // namespace gangway
