// ResumedPrograms: programs of an earlier controller that go on under this one
// (controller/programs/program_record.h).
//
//   named, detached -> slices, when there are devices -> compiled -> its newest checkpoint, or its
//   initial states -> the steps that are left of its repetition
//
// From the beginning the program's name is taken and "gangway ps" shows the program. Nobody can
// attach to it before its steps go on. Inputs, sources and versions of states are what they would
// have been without the restart, and so are all values after the restored version. If a host is
// lost meanwhile, or others hold memory that the program needs, it begins again; once its steps go
// on, recovery (controller/programs/recovery.h) brings it back from lost hosts. A program whose
// mesh may shrink waits kWholeWaitMs for all its devices, then takes fewer. A program that can't go
// on is ended, and the log says why.
//
// If a host lacks a text the program begins again too, since the text may come. A host that lacks
// something else that an op needs, such as the library of a user's kernel, is passed over. If no
// other hosts could take the program, it ends with that host's refusal, kWholeWaitMs after the
// first refusal. A slice that is refused for another reason than a lack of devices, such as a quota
// that is too small for it by now, ends the program with that reason; it waits while other programs
// of its owner hold the quota.
//
// Threads: the reactor's. A fiber for each program, until its steps go on.
// Ownership: the constructor's arguments outlive it.
// Errors: none: they end the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "controller/service/client_sessions.h"
#include "controller/service/state_writer.h"
#include "runtime/net/pacer.h"

namespace gangway {

class ResumedPrograms {
 public:
  // Executors look for their controller every few seconds: those that come are back by then.
  static constexpr int64_t kWholeWaitMs = 30'000;

  struct Options {
    std::function<uint64_t()> new_key;  // Returns the key of a new session.
    Pacer* pacer = nullptr;             // In a simulation, gives lowering its time.
    Logger log;
  };
  ResumedPrograms(Reactor& reactor, Controller& controller, ClientSessions& sessions,
                  StateWriter& writer, Options options);
  ~ResumedPrograms();
  ResumedPrograms(const ResumedPrograms&) = delete;

  // Returns once the programs have their names.
  void bring_back(const std::vector<ProgramRecord>& programs);

 private:
  using RecordPtr = std::shared_ptr<const ProgramRecord>;
  using SessionPtr = std::shared_ptr<ClientSessions::Session>;
  SessionPtr open(const ProgramRecord& program);
  void close(const SessionPtr& session, const std::string& why);
  // Hosts that lack something that an op of the program needs.
  struct Refusals {
    std::set<HostId> hosts;
    std::optional<Error> first;
    int64_t since_ns = 0;
  };
  bool note_refusal(Refusals& refusals, const Error& why);
  [[noreturn]] void throw_refused(const Refusals& refusals, bool is_held) const;
  void serve(const RecordPtr& program, SessionPtr session);
  // Suspends. Returns the version that the program goes on from.
  StateVersion resume(const ProgramRecord& program, SessionId id, const Refusals& refusals);
  // An executable's program, and the controller's memory for it until it is compiled.
  struct Graph {
    std::shared_ptr<const Program> program;
    OwnerUse::Hold held;
  };
  using Graphs = std::vector<Graph>;
  // Suspends. If the slice had to be smaller, replaces the programs in `graphs` by shrunk ones.
  SliceId allocate(const ProgramRecord& program, uint32_t slice, SessionId id, Graphs& graphs,
                   const Refusals& refusals, const StopToken& stop);
  PlanId compile(const ProgramRecord::Executable& executable, Graph& graph, SessionId id,
                 const std::vector<SliceId>& slices, uint64_t call);
  void note_lost_states(SessionId id, SliceId slice, const std::vector<std::string>& names);
  StateVersion restore(const ProgramRecord& program, SessionId id, SliceId slice);

  Reactor& reactor_;
  Controller& controller_;
  ClientSessions& sessions_;
  StateWriter& writer_;
  const Options options_;
  bool is_ending_ = false;
  FiberGroup fibers_;
};

}  // namespace gangway
