// RunPath: the way of a client's runs and host transfers to the tables, and of their ends back.
//
//   client ── frame ─► on_message() ─► Recovery ─► RunsAgain ─► RunTable, HostTransfers
//   client ◄─ end ──── LiveProgram ◄── Recovery ◄─ RunsAgain ◄────────┘
//
// Recovery (recovery.h) logs runs, keeps messages while their program is brought back from a lost
// host, and submits runs once more then. RunsAgain (runs_again.h) keeps what comes behind a run
// that may have to be run again. Most messages pass both at once. Steps of repetitions come from
// the controller itself and take the same way.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the constructor's arguments outlive it. Recovery and RunsAgain are its own; they call
// it for the way on from them.
// Errors: on_message() throws kInvalid for a message that breaks the rules, upon which the caller
// ends the client's connection. An error of a run or host transfer is its result.
// Cost: O(log programs) a message, besides what the tables, Recovery and RunsAgain cost.
#pragma once

#include <cstdint>
#include <optional>

#include "controller/programs/program_table.h"
#include "controller/programs/recovery.h"
#include "controller/programs/runs_again.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class RunPath {
 public:
  // Bounds of each client's runs, and of its puts and gets, that have not ended.
  struct Credits {
    uint32_t runs = 1024, transfers = 1024;
  };
  RunPath(Reactor& reactor, SharedTables& tables, ProgramTable& programs, Checkpoints& checkpoints,
          const Credits& credits);
  RunPath(const RunPath&) = delete;

  // A message of the program's client. Ignored if the session is closed.
  void on_message(SessionId session, Message message);
  // A step of a repetition. Nobody holds its outputs, so they are dropped.
  void submit_step(SessionId session, RunFrame step);
  // Releases a plan, at once or when its runs have ended.
  void release_plan(PlanId plan);
  // Frees what a call of a client has created.
  void release_created(SessionId session, const CallTable::Created& created);

  // The tables call these: a run has left the run table (see RunTable::Callbacks), a host transfer
  // has ended.
  void run_ended(SessionId session, RunDoneFrame&& done, bool is_stopped);
  void transfer_ended(SessionId session, HostTransferKind kind, HostTransferDoneFrame done);
  // Something has ended that suspensions, Recovery or RunsAgain may wait for.
  void look_again();
  // Ends runs that are past their time limit; see RunTable::expire() for `late_ns`.
  void expire(int64_t now_ns, int64_t late_ns);
  std::optional<int64_t> next_deadline_ns() const;  // When to call expire() next. None: no limit.
  // Woken when a time limit may come before the one that next_deadline_ns() returned last.
  WaitQueue& deadline_moved() { return deadline_moved_; }

  // For Recovery and RunsAgain. `refused`: why the run may not go. Its time limit begins at
  // `since_ns`.
  void submit_to_runs_again(SessionId session, RunFrame&& run, const std::optional<Error>& refused);
  void submit_to_table(SessionId session, RunFrame&& run, const std::optional<Error>& refused,
                       int64_t since_ns);
  void start_transfer(SessionId session, HostTransferFrame frame);
  void act_on_deferred(SessionId session, Message&& message);       // It has waited in Recovery.
  void run_ended_for_good(SessionId session, RunDoneFrame&& done);  // It does not run again.
  void freed();  // Arrays were freed, and runs may have room now.

  Recovery& recovery() { return recovery_; }
  const Recovery& recovery() const { return recovery_; }
  RunsAgain& runs_again() { return runs_again_; }
  const RunsAgain& runs_again() const { return runs_again_; }

 private:
  void act(LiveProgram& program, Message&& message);
  bool is_known_run(SessionId session, RunId run) const;

  const Clock& clock_;
  SharedTables& tables_;
  ProgramTable& programs_;
  const Credits credits_;
  WaitQueue deadline_moved_;
  RunsAgain runs_again_;
  Recovery recovery_;
};

}  // namespace gangway
