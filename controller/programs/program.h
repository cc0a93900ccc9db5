// LiveProgram: a program as the controller keeps it, from the first connection of its client until
// its session is closed.
//
// A program is all that one client session runs: its slices, executables, runs and arrays. It goes
// by the SessionId of that session, also while it has no client. (A gangway::Program is the graph
// that a client compiles; a LiveProgram may have compiled several.) What belongs to one program
// alone is a member here and ends with it; tables that programs share are the controller's.
//
// Threads: the reactor's thread; only wait_for_repetition() suspends, and the program may end
// meanwhile.
// Ownership: the program table's (program_table.h). `uses`, what the callbacks refer to, and the
// client's peer outlive it.
// Errors: functions throw what they say, and kInvalid for a plan that is not the program's.
// Cost: O(log) of its own runs and executables a run; nothing grows with other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/programs/call_table.h"
#include "controller/programs/log_buffer.h"
#include "controller/programs/named_executables.h"
#include "controller/programs/program_client.h"
#include "controller/programs/record_keeper.h"
#include "controller/programs/run_memory.h"
#include "controller/programs/shared_tables.h"
#include "controller/programs/suspension.h"
#include "controller/scheduler/repeats.h"
#include "protocol/messages.h"
#include "protocol/reported.h"
#include "protocol/share.h"
#include "runtime/base/error.h"
#include "runtime/fibers/clock.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/observe/log.h"

namespace gangway {

class LiveProgram {
 public:
  struct Identity {
    SessionId id;
    std::string name, owner;
    bool has_chosen_name = false;  // Its client's user gave it the name.
    int64_t since_ns = 0;          // When its first client connected.
  };
  // The controller's parts that all programs use.
  struct Uses {
    SharedTables& tables;
    Checkpoints& checkpoints;
    const Clock& clock;
    FiberGroup& repetition_fibers;
    const Logger& log;
    Suspension::Shared& suspensions;
  };
  struct Callbacks {
    // Frees what a call has created.
    std::function<void(const CallTable::Created&)> release_created;
    Repeats::Submit submit_step;
    std::function<void()> record_changed;  // Its record may have changed. Must not suspend.
  };
  LiveProgram(Identity identity, const Share& asked, ClientPeer& peer, const Uses& uses,
              Callbacks callbacks);
  ~LiveProgram();
  LiveProgram(const LiveProgram&) = delete;

  // Gives a detached program a client. The peer outlives the program, or lives until detach().
  void attach(ClientPeer& peer);
  // The program's part of Controller::detach(): calls under way end, and later messages to the
  // client are dropped.
  void detach();
  bool is_detached() const { return !client.is_there(); }
  void set_share(const Share& asked);  // kInvalid for a share out of bounds.
  // Replaces the numbers that the program reports of itself. kInvalid for names beyond bounds.
  void report(Reported numbers);
  // All that a client which attaches to the program finds, and the highest numbers that its clients
  // have used, for the next client.
  struct Holdings {
    std::vector<SliceId> slices;
    std::vector<std::pair<PlanId, NamedExecutable>> executables;
    uint64_t last_call = 0, releases = 0, last_name = 0, last_request = 0;
  };
  Holdings holdings() const;
  void name_executable(PlanId plan, NamedExecutable named);  // See named_executables.h.

  // Sends the line to the client, and writes it to the program's log and the controller's.
  void warn(const std::string& line);
  void record_changed() const { record_changed_(); }
  // Counts the names of a run, and the position up to which it reads its executable's sources.
  void count_names(const RunFrame& run);
  // Its client has sent a run. One for whose arguments there is no memory loses them.
  void take_run(RunFrame& run);
  // Why a run of its client may not go, asked once for each. None: it begins now.
  std::optional<Error> begin_run(const RunFrame& run);
  // A run has ended, which is reported to the client that sent it, if that is there.
  void end_run(RunDoneFrame&& done);
  // Begins a repetition of a plan that is the program's: see Repeats::begin().
  void repeat(const PlanRecord& plan, RepeatRequest request);
  void cancel_repetition(PlanId plan);
  RepeatProgress repetition(PlanId plan) const;
  // Suspends: see Repeats::wait().
  RepeatProgress wait_for_repetition(PlanId plan, const StopToken& asker = {});
  // Takes controller memory for its owner; kOverloaded if the owner may have no more. `what` is the
  // call that needs it: "compile".
  OwnerUse::Hold take_memory(size_t bytes, const char* what);

  const SessionId id;
  const ProgramNames::Entry entry;
  const std::string &name, &owner, &holder;  // The entry's.
  const int64_t since_ns;
  bool has_chosen_name;
  bool has_asked_for_devices = false;
  Share share;
  Reported reported;  // The numbers that it has reported last.
  uint64_t runs_done = 0;

  ProgramClient client;
  const std::shared_ptr<LogBuffer> log;
  const std::shared_ptr<CallTable> calls;
  RunMemory run_memory;
  NamedExecutables executables;
  Repeats repeats;
  RecordKeeper record_keeper;
  const std::shared_ptr<Suspension> suspension;

 private:
  void require_own(PlanId plan) const { static_cast<void>(tables_.plans.at(plan, id)); }

  SharedTables& tables_;
  const Logger& controller_log_;
  const std::function<void()> record_changed_;
};

}  // namespace gangway
