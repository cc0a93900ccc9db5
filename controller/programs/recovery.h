// Recovery: a program that keeps checkpoints goes on by itself when one of its hosts is lost.
//
//   lost -> its runs have ended, none is reported -> its slices get other devices, or as many as
//   are left along the axes that it calls elastic -> its plans are installed there -> states of the
//   newest checkpoint -> the runs since then once more (run_log.h) -> messages of its client
//
// All slices go back to one version. Runs keep their names: a run whose result was reported to the
// client is run again for the states and the arrays that it makes, and is not reported again; the
// other runs are reported now. Until then messages of the client and reads of the program's states
// wait; readers of the latest version get none that is older than one that they may have seen.
//
// Results that were reported stay true: a run that ended well is run again without its time limit,
// and can't be cancelled any more. If it fails when it is run again, the program ends with the
// reason. A run that was not reported is submitted once those before it have ended again; its time
// limit counts from then on.
//
// A state that is younger than the checkpoint begins with its first value again. A state that no
// executable has any more can't be placed anywhere: the program goes on without it, and its user is
// warned.
//
// Some programs can't be brought back, and fail as without checkpoints, with a warning to the
// client's user: if a client wrote states, or runs came before the checkpoints were asked for, with
// no checkpoint since; and if a run takes an array that no run of the log has made. If another host
// is lost meanwhile, the recovery begins anew. If it fails for whatever reason, reads of the
// program's states fail with that error. If there is no room the program waits for some, ahead of
// clients that wait for slices, since it had its devices before.
//
// Threads: the reactor's; wait_until_back() suspends, nothing else does. A fiber for each program
// that is being brought back.
// Ownership: the run path's (run_path.h); the constructor's arguments outlive it.
// Errors: none are thrown; failures are reported as results of runs. defer() throws kInvalid.
// Cost: a copy of each run's frame, of programs that keep checkpoints; nothing for others.
// Method: rollback to a checkpoint and replay of a message log (Elnozahy et al., "A Survey of
// Rollback-Recovery Protocols in Message-Passing Systems", 2002, section 4.1).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/programs/checkpoints.h"
#include "controller/programs/run_log.h"
#include "controller/programs/shared_tables.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"

namespace gangway {

class ProgramTable;
class RunPath;

class Recovery {
 public:
  // Bound of messages of a client that wait while its program is brought back, plus names in them.
  static constexpr size_t kDeferredMax = size_t{1} << 20;

  // `path`: takes runs and messages on from here.
  Recovery(Reactor& reactor, SharedTables& tables, ProgramTable& programs, Checkpoints& checkpoints,
           RunPath& path)
      : clock_(reactor.clock()),
        tables_(tables),
        live_(programs),
        checkpoints_(checkpoints),
        path_(path),
        fibers_(reactor) {}
  Recovery(const Recovery&) = delete;

  // Checkpoints of this slice are kept from now on. `base`: its states have just been restored from
  // this version's checkpoint; 0: they are their first values, with the runs since.
  void keep(SessionId session, SliceId slice, StateVersion base = {});
  // Whether a run of this name may be run again, or waits here to be submitted.
  bool knows(SessionId session, RunId run) const;
  // Submits a run, of any client, and logs it if its program keeps checkpoints. `refused`: why it
  // may not run.
  void submit(SessionId session, RunFrame&& frame, const std::optional<Error>& refused = {});
  // Whether the end of the run is to be reported.
  bool run_ended(SessionId session, const RunDoneFrame& done);
  void transfer_begins(SessionId session, const HostTransferFrame& frame);
  // Whether messages of the session's client have to wait now (defer()).
  bool is_moving(SessionId session) const { return moving_ > 0 && moves(session); }
  // Keeps a message until the program is back. kInvalid if the client sends more than kDeferredMax.
  void defer(SessionId session, Message message);
  // Keeps a run that the controller enqueues, and whose outputs nobody holds. It does not count
  // against kDeferredMax: there are only as many as a plan may have in flight.
  void defer_step(SessionId session, RunFrame run);
  // Keeps a message that waited elsewhere (programs/runs_again.h), which bounds their number.
  void take_over(SessionId session, Message&& message);
  // Whether the program is brought back and its log has the run, which is then submitted again.
  bool runs_again(SessionId session, RunId run) const;
  // The client asks a run to stop. True: its end was reported. False: the run table has the run.
  bool cancel(SessionId session, RunId run, const Error& why);
  // Returns arrays that runs which wait here take. They are freed behind those runs.
  std::set<ArrayId> detached(SessionId session);
  // The client holds these arrays, which a run in the log makes that is not in the run table.
  void are_held(SessionId session, const std::vector<ArrayId>& arrays);
  void wait_until_back(SessionId session, const StopToken& asker = {});

  void host_lost(HostId host);
  void checkpoint_written(SliceId slice, StateVersion version);
  void slice_gone(SliceId slice);
  void session_closed(SessionId session);
  // Something has ended, so programs that wait for that look again.
  void look_again() {
    if (moving_ > 0) changed_.wake_all();
  }
  // "4 devices, since host \"e2\" was lost". Empty: it does not wait for devices.
  std::string waits_for(SessionId session) const;
  size_t size() const { return programs_.size(); }

 private:
  enum class Phase : uint8_t { kRuns, kMoves, kCatchesUp };
  using Programs = std::map<PlanId, std::shared_ptr<const gangway::Program>>;
  struct Program {
    SessionId session;
    SliceId slice;
    RunLog log;
    Phase phase = Phase::kRuns;
    bool was_hit = false;        // Another host was lost since this try began.
    std::string lost;            // Names of the lost hosts.
    std::set<RunId> again;       // Reported runs that are running once more.
    std::optional<Error> broke;  // Why one of `again` failed; then the program ends.
    int tries = 0;               // Tries whose `broke` looked like a lost host.
    // Outputs that the client holds, of runs that are still to be submitted again.
    std::set<ArrayId> held;
    std::deque<Message> inbox;            // Messages that its client sent meanwhile.
    size_t deferred = 0;                  // Counted against kDeferredMax.
    std::optional<StateVersion> written;  // A checkpoint that came while it was moving.
    uint32_t waits_for = 0;               // Number of devices that a slice waits for.
    bool has_said_that_it_waits = false, has_said_that_it_lacks_room = false;
    std::vector<PlanId> tried;       // Plans that the last try installed, or failed to install.
    int64_t waited_for_room_ns = 0;  // Shortest wait before the last try.
    WaitQueue room;                  // Woken when there may be room.
    Programs resized;                // Programs for its slices as they lie now, installed or not.
    std::map<std::string, int64_t> shrunk;  // New sizes of axes.
    std::map<HostId, Error> refusing;       // Hosts that could not install it, and why.
    bool is_gone = false;
  };
  using ProgramPtr = std::shared_ptr<Program>;
  ProgramPtr program_of(SessionId session) const;
  bool moves(SessionId session) const;
  void log(SessionId session, const RunFrame& frame);
  std::vector<PlanRecord*> plans_of(const Program& program) const;
  bool uses(const Program& program, HostId host) const;
  void leaves(const Program& program);
  void begin(const ProgramPtr& program);
  void bring_back(const ProgramPtr& program);
  bool try_once(Program& program);
  void wait_for_room(Program& program);
  bool is_quiet(const Program& program) const;
  std::optional<std::string> why_not(const Program& program) const;
  void lose_states(const Program& program, const std::set<std::string>& all_but,
                   const std::string& host);
  void lose_states_on(const Program& program, HostId host, const std::string& name);
  void move_slices(Program& program, Programs& programs);
  static void throw_if_refused(Program& program);
  std::vector<SliceId> slices_of(const Program& program) const;
  bool install_again(Program& program, PlanId id,
                     const std::shared_ptr<const gangway::Program>& graph);
  bool restore(Program& program);
  void note_written(Program& program, StateVersion version);
  bool must_leave(const Program& program, const SliceRecord& slice) const;
  std::set<DeviceRef> avoided(const Program& program) const;
  bool place(Program& program, SliceId slice, Programs& programs);
  bool run_again(Program& program);
  bool wait_for_reports(Program& program);
  std::vector<ArrayId> submit_again(Program& program, RunLog::Entry& entry);
  bool submit_all_again(Program& program, const std::vector<RunId>& runs,
                        std::map<ArrayId, size_t> last_taker, std::set<ArrayId>& unheld);
  void end(Program& program);
  void give_up(Program& program, const Error& why);
  void drop_chain(Program& program, RunId failed, const Error& why);
  StateVersion reached(const Program& program) const;
  std::string hosts_of(const Program& program) const;

  const Clock& clock_;
  SharedTables& tables_;
  ProgramTable& live_;
  Checkpoints& checkpoints_;
  RunPath& path_;
  std::map<SessionId, ProgramPtr> programs_;
  int moving_ = 0;
  WaitQueue changed_;
  FiberGroup fibers_;
};

}  // namespace gangway
