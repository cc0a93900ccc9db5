// RunsAgain: runs of executables whose plans may have too little room on a device for what is known
// only when they run (ir/plan/rows_overflow.h).
//
//   run A    run B    run C          submitted, one behind the other
//   overflow  not committed, since A did not
//   ── the plan is compiled again with more room, and takes the old one's place ──
//   run A    run B    run C          again, in order, each with its arguments and positions
//
// A run that did not commit has changed no state, so nothing is rolled back. It stands between the
// run table and all that submits runs and learns of their ends: clients, repetitions and recovery.
// They see a run that takes longer. Names stay, so arrays and the runs behind them need no others.
//
// A run that fails in any other way ends with its error, and so do the runs behind it. A run that
// is cancelled, or past its time limit, ends with that at once, also while it waits here, and the
// runs behind it say so. Where the larger program can't be installed, all runs that it was for end
// with that error; the next run installs the last program again, which may have room by then.
//
// Nothing that has committed can be taken back, so whatever comes behind a run that may still
// overflow waits here until that run has ended: a run of another executable on the same slice or
// with an argument that the run makes, a run of its own executable that begins a new chain, and a
// read or write of the slice's states. While a plan is compiled again all runs and host transfers
// of its program wait. They keep their order, but for transfers of arrays, which pass runs that
// wait for other reasons and do not make them.
//
// Threads: the reactor's thread; nothing suspends. A fiber of a program does what suspends, as long
// as there is something to do.
// Ownership: the run path's (run_path.h); the constructor's arguments outlive it. A plan that is
// released is kept until its runs have ended.
// Errors: a run's.
// Cost: comparisons for each run, while no live program has compiled such a plan, else look-ups.
// For a program that has one a copy of each of its runs' frames, and O(its runs in flight) a run.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/programs/shared_tables.h"
#include "protocol/messages.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class ProgramTable;
class RunPath;

class RunsAgain {
 public:
  // `path`: takes runs, host transfers and ends on from here.
  RunsAgain(Reactor& reactor, SharedTables& tables, ProgramTable& programs, RunPath& path)
      : clock_(reactor.clock()), tables_(tables), live_(programs), path_(path), fibers_(reactor) {}
  ~RunsAgain() { is_ending_ = true; }
  RunsAgain(const RunsAgain&) = delete;

  // The session has a plan whose runs may overflow.
  void begin(SessionId session);
  // A run is about to be submitted to the run table. True: it waits here, and was moved from.
  bool waits(SessionId session, RunFrame& run, const std::optional<Error>& refused) {
    return !programs_.empty() && take(session, run, refused);
  }
  // A run has ended in the run table; `is_stopped`: see RunTable. True: its end is reported from
  // here, perhaps later.
  bool run_ended(SessionId session, RunDoneFrame& done, bool is_stopped) {
    return !programs_.empty() && take_end(session, done, is_stopped);
  }
  // Whether the host transfer waits here; then it was moved from.
  bool waits(SessionId session, HostTransferFrame& transfer) {
    return !programs_.empty() && take_transfer(session, transfer);
  }
  // The client, or whoever submitted the runs that make them, does not hold these arrays any more.
  void free(SessionId session, const std::vector<ArrayId>& arrays);
  // The client asks a run to stop. True: it ends here. False: the run table is asked.
  bool cancel(SessionId session, RunId run, const Error& why);
  bool knows(SessionId session, RunId run) const {
    return !programs_.empty() && has_run(session, run);
  }
  // Whether the plan is kept for now, and released once its runs have ended.
  bool releases_later(SessionId session, PlanId plan);
  // The program has lost a host, and Recovery runs its runs again.
  void slice_moves(SliceId slice);
  // `taken`: arrays that runs take which wait in Recovery.
  void detached(SessionId session, const std::set<ArrayId>& taken);
  void session_closed(SessionId session);
  // A run or a host transfer has ended somewhere, so programs that wait for that look again.
  void look_again() {
    if (!programs_.empty()) wake_all();
  }
  // Ends runs that wait here and are past their time limit.
  void expire(int64_t now_ns);
  std::optional<int64_t> next_deadline_ns() const;
  // Runs that are in no other table: they wait here, or are to be run again.
  size_t held(SessionId session) const;
  size_t held() const;

 private:
  // A run of a plan that may overflow, from its submission until it has ended for good.
  struct Held {
    RunFrame frame;
    std::vector<ArrayId> kept;          // Arguments, so that they are there if it runs again.
    std::shared_ptr<void> open;         // Counts it in its scope while it is not in the run table.
    std::optional<RunDoneFrame> ended;  // How it left the run table; none: it is there.
    std::optional<Error> cancelled;
    int64_t since_ns = 0;  // When it was sent, or submitted once more by Recovery: its time limit
                           // counts from then.
  };
  using HeldPtr = std::shared_ptr<Held>;
  struct Executable {
    std::deque<HeldPtr> runs;  // In the order of their submission.
    bool overflowed = false;   // The first of `runs` did, and the plan is to be compiled again.
    bool released = false;
    // Runs that were not run again, and why.
    std::map<RunId, Error> dropped;
  };
  // A message that is acted on later.
  struct Waiting {
    Message message;  // A run, a host transfer, or arrays to free.
    std::optional<Error> refused;
    std::vector<ArrayId> kept;
    std::shared_ptr<void> open;
    int64_t since_ns = 0;  // When it came.
  };
  struct Place {
    PlanId plan;
    HeldPtr held;
  };
  struct Program {
    SessionId session;
    std::map<PlanId, Executable> executables;  // Executables that have had runs, until they go.
    std::map<RunId, Place> by_run;
    std::deque<Waiting> waiting;
    std::set<ArrayId> to_be_created;  // Outputs of runs in `waiting`.
    bool is_at_work = false;          // Its fiber runs.
    PlanId installing;                // The plan that its fiber is at; 0: none.
    bool is_gone = false;
    WaitQueue changed;
  };
  using ProgramPtr = std::shared_ptr<Program>;
  ProgramPtr program_of(SessionId session) const;
  PlanRecord* plan_of(const Program& program, PlanId plan) const;
  // A larger plan could not be installed, and the last one is gone.
  bool lacks_plan(const Program& program, PlanId plan) const;
  static bool any_overflowed(const Program& program);
  static bool is_needed(const Program& program, PlanId plan);
  static PlanId to_release(const Program& program);
  // The plan that a message needs to be installed; 0: none.
  static PlanId plan_needed_by(const Message& message);
  // Arrays that are not there before the message is acted on.
  static std::vector<ArrayId> created_by(const Message& message);
  static const Error& lost();

  bool has_run(SessionId session, RunId run) const;
  void wake_all();
  bool take(SessionId session, RunFrame& run, const std::optional<Error>& refused);
  bool take_end(SessionId session, RunDoneFrame& done, bool is_stopped);
  bool take_transfer(SessionId session, HostTransferFrame& transfer);
  bool depends(const Program& program, const RunFrame& run) const;
  bool depends(const Program& program, const HostTransferFrame& transfer) const;
  bool depends_on_a_run(const Program& program, const Message& message) const;
  void enqueue(const ProgramPtr& program, Message&& message, const std::optional<Error>& refused);
  void track(Program& program, const RunFrame& run, int64_t since_ns);

  template <class Body>
  void for_each_limited(const Program& program, const Body& body) const;
  using RunBody = std::function<void(const RunFrame& run, std::vector<ArrayId>& kept)>;
  static void for_each_run(Program& program, const RunBody& body);
  static std::deque<Waiting>::iterator waiting_run(Program& program, RunId run);
  void keep_arguments(const Program& program, const RunFrame& run, std::vector<ArrayId>& kept);
  void keep_created(Program& program, const std::vector<ArrayId>& created);
  void drop_kept(std::vector<ArrayId>& kept);
  void drop_outputs(Program& program, PlanId plan);
  std::shared_ptr<void> counted_open(const Program& program, PlanId plan) const;

  void settle(Program& program, PlanId plan);
  void finish(Program& program, PlanId plan, const HeldPtr& held, RunDoneFrame&& done);
  void finish_dropped(Program& program, PlanId plan, const HeldPtr& held, const Error& why);
  void end_cancelled(Program& program, PlanId plan);
  void fail_all(Program& program, PlanId plan, const Error& why);
  bool cancel_waiting(const ProgramPtr& program, RunId run, const Error& why);
  static void note_failed(PlanRecord& plan, RunId run, const Error& behind);

  bool has_work(const Program& program) const;
  void wake(const ProgramPtr& program);
  void work(Program& program);
  bool work_once(Program& program);
  void act_on_first(Program& program);
  class Installing;
  bool has_left(const Program& program, PlanId plan) const;
  bool may_make_again(Program& program, PlanId plan);
  static bool is_over(Program& program, PlanId plan);
  void run_again(Program& program, PlanId plan);
  bool install(Program& program, PlanId plan, const std::shared_ptr<const gangway::Program>& graph);
  void install_last(Program& program, PlanId plan);
  void submit_again(Program& program, PlanId plan);

  const Clock& clock_;
  SharedTables& tables_;
  ProgramTable& live_;
  RunPath& path_;
  std::map<SessionId, ProgramPtr> programs_;
  bool is_ending_ = false;  // Then fibers are cancelled.
  FiberGroup fibers_;
};

}  // namespace gangway
