// HeldRuns: the runs of an executable whose plan may have too little room on a device for what is
// known only when it runs (ir/plan/rows_overflow.h).
//
//   run A    run B    run C          enqueued, one behind the other
//   overflow  not committed, since A did not
//   ── compiled again with more room, the old plan is released ──
//   run A    run B    run C          again, in order, each with its arguments and batch
//
// Nothing of a run that did not commit has happened to the states, so the user sees only that it
// took longer. What a run was given is kept until it has ended for good. Whoever waits for one of
// them, or enqueues another, compiles the program again and sends them; others wait for that.
//
// A run that fails in any other way ends with its error, and so do those behind it, as always. So
// does a run that the user cancelled before it was sent again. Runs of other executables are not
// held: those that were enqueued behind read the states of that time.
//
// Threads: run() and run_again() on user threads, or in fibers of the client's reactor; what is
// said to be guarded, by the client's notify.mutex.
// Ownership: the executable's. What a run was given is let go on its threads, never on the
// reactor's, which must not be the last to hold a handle.
// Errors: a run's, also where the program can't be compiled again (no memory for the larger plan).
// Cost: a copy of each run's arguments.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "client/client_impl.h"

namespace gangway::internal {

class HeldRuns : public std::enable_shared_from_this<HeldRuns> {
 public:
  HeldRuns(const std::shared_ptr<ExecutableImpl>& executable, const CompileOptions& options);

  std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                               const std::vector<Argument>& arguments, const RunOptions& options);
  // Whether a run overflowed and nobody is at it yet. Guarded.
  bool overflowed() const { return overflowed_ && !is_at_it_; }
  void run_again();
  // The executable goes: what has not ended for good ends as it may.
  void give_up();

 private:
  // A run that has not ended for good. Guarded, but for what it was given.
  struct Held {
    std::vector<Argument> arguments;
    int64_t time_limit_ms = 0;
    uint64_t position = 0;
    std::weak_ptr<RunImpl> run;
    std::shared_ptr<Outcome> outcome;
    std::vector<std::weak_ptr<ArrayImpl>> outputs;
    bool in_flight = false;
    std::optional<RunDoneFrame> ended;
  };
  using HeldPtr = std::shared_ptr<Held>;

  void send(ExecutableImpl& executable, const HeldPtr& held, bool is_only_one);
  bool is_free(ExecutableImpl& executable);
  void drop_ended();
  // Guarded.
  void settle();
  void end_first();
  void end_from(size_t first);

  void compile_again(ExecutableImpl& executable);
  void send_again(ExecutableImpl& executable);

  const std::weak_ptr<ExecutableImpl> executable_;
  Notify& notify_;
  const CompileOptions options_;
  std::deque<HeldPtr> runs_;    // Guarded, as what follows; in the order of the chain.
  std::vector<HeldPtr> ended_;  // For good.
  bool overflowed_ = false;     // The first of the runs has.
  bool is_at_it_ = false;       // Somebody compiles and sends again.
  Program program_;             // Of who is at it: as it was compiled last.
};

}  // namespace gangway::internal
