// Recovery: a program that keeps checkpoints goes on by itself when one of its hosts is lost.
//
//   lost -> its runs have ended, none is told -> its slices get other devices, or as many as are
//   left along the axes that it calls elastic -> its plans are installed there -> states of the
//   newest checkpoint -> the runs since then once more (run_log.h) -> what its client sent
//
// All slices go back to one version. Runs keep their names: those whose results were told are run
// again for the states and the arrays that they make, and are not told again; the others are told
// now. Until then what the client sends waits here, and so does whoever reads the program's states;
// readers of the latest version are shown none that is older than what they may have seen.
//
// What was told stays true: a run that ended well is run again without its time limit, and can't be
// cancelled any more. Should it fail when it is run again, the program ends, and is told why. A run
// that was not told is submitted once those before it have ended again: from then on it has the
// time that its limit says.
//
// A state that is younger than the checkpoint begins with its first value again. One that no
// executable has any more can't be placed anywhere: the program goes on without it, and its user is
// told.
//
// What can't be brought back fails as without checkpoints, and the client's user is told why: after
// states were written by a client, or runs came before the checkpoints were asked for, with no
// checkpoint since; and where a run takes an array that no run of the log has made. Hosts that are
// lost meanwhile begin it anew. Where bringing it back fails, whatever made it fail, its states are
// refused to all with that error. Where there is no room it waits for some, ahead of those who wait
// for slices: it had its devices before.
//
// Threads: the reactor's; wait_until_back() suspends, nothing else does. A fiber for each program
// that is being brought back.
// Ownership: what it is given outlives it.
// Errors: none are thrown; what fails is told as results of runs.
// Cost: a copy of each run's frame, of programs that keep checkpoints; nothing for others.
// Method: rollback to a checkpoint and replay of a message log (Elnozahy et al., "A Survey of
// Rollback-Recovery Protocols in Message-Passing Systems", 2002, section 4.1).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/copies/copies.h"
#include "controller/recovery/checkpoints.h"
#include "controller/recovery/run_log.h"
#include "controller/resources/planted_bugs.h"
#include "controller/scheduler/runs.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"

namespace gangway {

class Recovery {
 public:
  // Messages of a client that wait while its program is brought back, and names in them.
  static constexpr size_t kDeferredMax = size_t{1} << 20;

  struct Tables {
    Reactor& reactor;
    HostTable& hosts;
    SliceTable& slices;
    ObjectTable& objects;
    PlanTable& plans;
    RunTable& runs;
    CopyTable& copies;
    Checkpoints& checkpoints;
  };
  struct Callbacks {
    std::function<std::string(SessionId)> holder_name;
    std::function<OwnerUse::Hold(SessionId)> memory_of;  // The controller's, of its owner.
    std::function<bool(SessionId)> is_suspended;
    std::function<void(SessionId, const std::string&)> warn;  // The program's user, and the log.
    // To the run table, which is told why it may not run.
    std::function<void(SessionId, RunFrame&&, const std::optional<Error>& refused)> submit;
    std::function<void(SessionId, RunDoneFrame&&)> ended;  // The client is told.
    std::function<void(SessionId, Message&&)> act;  // On what the client has sent, which waited.
    std::function<void(SliceId)> moves, is_back;    // For who reads its states.
  };
  Recovery(const Tables& tables, Callbacks callbacks, const PlantedControllerBugs& planted = {})
      : tables_(tables),
        callbacks_(std::move(callbacks)),
        planted_(planted),
        fibers_(tables.reactor) {}

  // Checkpoints of this slice are kept from now on. `base`: it has just been given the states of
  // this version's checkpoint; 0: it has the first values of its states, and what was done since.
  void keep(SessionId session, SliceId slice, StateVersion base = {});
  // Whether a run of this name may be run again, or waits here to be submitted.
  bool knows(SessionId session, RunId run) const;
  // Of every client: its run, which is submitted.
  void submit(SessionId session, RunFrame&& frame, const std::optional<Error>& refused = {}) {
    if (!programs_.empty() && !refused) log(session, frame);
    callbacks_.submit(session, std::move(frame), refused);
  }
  // Whether somebody is to be told that a run has ended so.
  bool run_ended(SessionId session, const RunDoneFrame& done);
  void copy_begins(SessionId session, const CopyFrame& frame);
  // Whether what the session's client sends waits here now (defer()).
  bool is_moving(SessionId session) const { return moving_ > 0 && moves(session); }
  // kInvalid where the client sends more meanwhile than kDeferredMax.
  void defer(SessionId session, Message message);
  // A run that the controller enqueues, of which nobody holds the outputs: it waits so too, however
  // much the client has sent. As many come as a plan may have in flight.
  void defer_step(SessionId session, RunFrame run);
  // The client asks a run to stop. True: it has been told the end; false: the run table knows it.
  bool cancel(SessionId session, RunId run, const Error& why);
  void detached(SessionId session);
  void wait_until_back(SessionId session, const StopToken& asker = {});

  void host_lost(HostId host);
  void checkpoint_written(SliceId slice, StateVersion version);
  void slice_gone(SliceId slice);
  void session_closed(SessionId session);
  // Something has ended: whoever waits for that looks.
  void look_again() {
    if (moving_ > 0) changed_.wake_all();
  }
  // "4 devices, since host \"e2\" was lost"; empty: it does not wait for any.
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
    bool was_hit = false;        // A host was lost since it began to move.
    std::string lost;            // Their names.
    std::set<RunId> again;       // Whose results were told, and which run once more.
    std::optional<Error> broke;  // Why one of these failed; then the program ends.
    int tries = 0;               // That ended so, as if a host had been lost.
    // Outputs of runs that are still to be submitted again, and which the client holds.
    std::set<ArrayId> held;
    std::deque<Message> inbox;            // What its client sent meanwhile.
    size_t deferred = 0;                  // Counted against kDeferredMax.
    std::optional<StateVersion> written;  // A checkpoint that came while it was moving.
    uint32_t waits_for = 0;               // Devices.
    bool has_said_that_it_waits = false, has_said_that_it_lacks_room = false;
    std::vector<PlanId> tried;       // Those that the last try has installed, or failed to.
    int64_t waited_for_room_ns = 0;  // Before it.
    WaitQueue room;                  // May have come.
    Programs resized;  // For its slices as they lie now; not all are installed so yet.
    std::map<std::string, int64_t> shrunk;  // Axes.
    std::map<HostId, Error> refusing;       // Hosts that could not install it, and why.
    std::optional<Error> refused;           // The first refusal that was not for want of room.
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
  bool wait_for_told(Program& program);
  void submit_again(Program& program, RunFrame frame);
  void end(Program& program);
  void give_up(Program& program, const Error& why);
  void drop_chain(Program& program, RunId failed, const Error& why);
  StateVersion reached(const Program& program) const;
  std::string hosts_of(const Program& program) const;

  const Tables tables_;
  const Callbacks callbacks_;
  const PlantedControllerBugs planted_;
  std::map<SessionId, ProgramPtr> programs_;
  int moving_ = 0;
  WaitQueue changed_;
  FiberGroup fibers_;
};

}  // namespace gangway
