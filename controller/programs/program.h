// LiveProgram: a program as the controller keeps it, from the first connection of its client until
// its session is closed.
//
// A program is all that one client session runs: its slices, executables, runs and arrays. It goes
// by the SessionId of that session, also while it has no client. (A gangway::Program is the graph
// that a client compiles; a LiveProgram may have compiled several.) What belongs to one program
// alone is a member here and ends with it; tables that programs share are the controller's.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the controller's. `uses`, what the callbacks refer to, and the client's peer outlive
// it.
// Errors: take_memory() and repeat() throw what they say; nothing else throws.
// Cost: O(log) of its own runs and executables a run; nothing grows with other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/owners/owner_use.h"
#include "controller/owners/program_names.h"
#include "controller/plans/plans.h"
#include "controller/programs/call_table.h"
#include "controller/programs/log_buffer.h"
#include "controller/programs/named_executables.h"
#include "controller/programs/program_client.h"
#include "controller/programs/record_keeper.h"
#include "controller/programs/run_memory.h"
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
    ProgramNames& names;
    const Clock& clock;
    OwnerUse& owner_use;
    FiberGroup& fibers;
    const Logger& log;
    RecordKeeper::Tables records;
    Suspension::Shared& suspensions;
  };
  struct Callbacks {
    std::function<void(const CallTable::Made&)> let_go;  // Frees what a call has created.
    Repeats::Submit submit_step;
    std::function<void()> record_changed;  // Its record may have changed. Must not suspend.
  };
  LiveProgram(Identity identity, const Share& asked, ClientPeer& peer, const Uses& uses,
              Callbacks callbacks);
  ~LiveProgram();
  LiveProgram(const LiveProgram&) = delete;

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
  OwnerUse& owner_use_;
  const Logger& controller_log_;
  const std::function<void()> record_changed_;
};

}  // namespace gangway
