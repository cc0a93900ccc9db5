// HeldRuns: the runs of an executable whose plan may have too little room on a device for what is
// known only when it runs (ir/plan/rows_overflow.h).
//
//   run A    run B    run C          enqueued, one behind the other
//   overflow  not committed, since A did not
//   ── compiled again with more room, the old plan is released ──
//   run A    run B    run C          again, in order, each with its arguments and batch
//
// Nothing of a run that did not commit has happened to the states, so the user sees only that it
// took longer. A run's arguments are kept until it has ended for good. A thread that waits for one
// of the runs, enqueues another, reads or writes a state of the slice, or drops the executable
// compiles the program again and sends the runs; other threads wait for that.
//
// A run that fails in any other way ends with its error, and so do the runs behind it, as always. A
// run that was cancelled before it could be sent again ends as cancelled, and the runs behind it
// say so. Where the larger program can't be compiled, all runs that it was for end with that error;
// the next run compiles the last program again, which may have room by then. The user is warned of
// a program that was compiled again (ConnectOptions::on_warning).
//
// A run of another executable that names one of the same states on the same slice, or takes a
// result of these runs, is not sent before they have ended for good: its run() waits for that, and
// so the run sees the states of its turn. Sent at once, it could commit before it is known that a
// run before it overflowed, and what has committed can't be taken back. Between the two there is no
// work ahead: programs that take turns at every step do better with ample room for all rows.
//
// Threads: user threads, or fibers of the client's reactor. The client's notify.mutex guards the
// members that are said to be guarded. The reactor's thread looks runs up by number when they end,
// and never holds one.
// Ownership: the executable owns it, and is the last to go. A run's arguments are released on user
// threads, never on the reactor's, which must not be the last to hold a handle.
// Errors: a run's.
// Cost: a copy of each run's arguments.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/client_impl.h"
#include "client/send_run.h"

namespace gangway::internal {

class HeldRuns : public std::enable_shared_from_this<HeldRuns> {
 public:
  HeldRuns(const std::shared_ptr<ExecutableImpl>& executable, CompileOptions options);

  // Suspends where runs are to be run again first, and where every run does.
  std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                               const std::vector<Argument>& arguments, const RunOptions& options);
  // Guarded. Whether run_again() has work, and nobody is at it.
  bool is_to_run_again() const { return has_work() && !is_at_it_; }
  // Suspends until nothing is left to do. If nobody is at the work, does it; otherwise waits for
  // that thread or fiber.
  void run_again();
  // Suspends until every run that was enqueued before has ended for good.
  void wait_for_all();
  // Whether the program names a state of these runs.
  bool shares_states(const Program& program) const;
  // Releases the arguments of runs that have ended for good.
  void drop_ended();
  // The executable is going: runs again what has to be, and leaves nothing. Suspends.
  void finish(ExecutableImpl& executable);

 private:
  // A run that has not ended for good. It is in flight, or waits to be sent again, and then it may
  // have ended with an overflow, or behind a run that did. Guarded, except for its arguments.
  struct Held {
    std::vector<Argument> arguments;
    int64_t time_limit_ms = 0;
    uint64_t position = 0;
    std::shared_ptr<Outcome> outcome;
    std::vector<std::weak_ptr<ArrayImpl>> outputs;
    uint64_t number = 0;  // Number of its last sending.
    bool in_flight = false;
    bool is_behind = false;  // A run before it in its chain failed: it can't commit.
    std::optional<RunDoneFrame> ended;
  };
  using HeldPtr = std::shared_ptr<Held>;

  PlanId plan_of(ExecutableImpl& executable);
  void require_plan(ExecutableImpl& executable);
  bool enter(ExecutableImpl& executable, const HeldPtr& held, PlanId plan);
  void send(ExecutableImpl& executable, const HeldPtr& held, Bound bound, bool is_only_one);
  // Guarded.
  bool has_work() const;
  void begin_sending(Held& held);
  bool note_end(uint64_t number, RunDoneFrame& done);
  void settle();
  void end_at(size_t place, RunDoneFrame done);
  void end_cancelled();
  void break_chain(size_t place, const Error& why);

  template <class Needed>
  bool claim(Needed needed);
  void run_again(ExecutableImpl& executable);
  void do_work(ExecutableImpl& executable);
  void compile(ExecutableImpl& executable, Program program);
  void send_all(ExecutableImpl& executable);
  void fail(const Error& why);
  void give_up();

  const std::weak_ptr<ExecutableImpl> executable_;
  Notify& notify_;
  const CompileOptions options_;
  const std::string name_;
  const std::set<std::string> states_;
  const bool commits_;          // Its runs update states, and so form a chain.
  std::deque<HeldPtr> runs_;    // In the order of the chain. Guarded, as all that follows.
  std::vector<HeldPtr> ended_;  // Runs that have ended for good.
  uint64_t sendings_ = 0;
  bool is_at_it_ = false;  // Somebody compiles and sends again.
  Program program_;        // The last one compiled; used by the one at work.
};

// Holds the executable's runs from now on.
void hold_runs(const std::shared_ptr<ExecutableImpl>& executable, const CompileOptions& options);

// Suspends until all runs of other executables have ended for good that may have to be run again,
// and behind which a run of this executable with these arguments comes.
void wait_for_held(const ExecutableImpl& executable, const std::vector<Argument>& arguments);

// Suspends until every run on the slice has ended for good that was enqueued before and may have to
// be run again.
void wait_for_held(SliceImpl& slice);

}  // namespace gangway::internal
