// ResumedPrograms: programs of an earlier controller that go on under this one
// (controller/recovery/program_record.h).
//
//   named, detached -> slices, when there are devices -> compiled -> its newest checkpoint, or its
//   initial states -> the steps that are left of its repetition
//
// Its names are taken, and "gangway ps" shows it, from the beginning; nobody attaches to it before
// its steps go on. Inputs, sources and versions of its states are those that they would have been,
// and so are all values behind that version. Where a host is lost meanwhile, or others hold memory
// that it needs, it begins again; once its steps go on, recovery (controller/recovery/recovery.h)
// brings it back from lost hosts. One whose mesh may shrink waits kWholeWaitMs for all its devices,
// then it takes fewer. One that can't go on is ended, and the log says why.
//
// A text that a host lacks may come: then it begins again too. A host that lacks what an op needs,
// such as the library of a user's kernel, is passed over. The program ends with the host's refusal
// where no other hosts could take it, kWholeWaitMs after the first refusal.
//
// Threads: the reactor's. A fiber for each, until its steps go on.
// Ownership: what it is given outlives it.
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
  // Executors look for their controller every few seconds: by then those are back that come.
  static constexpr int64_t kWholeWaitMs = 30'000;

  struct Options {
    std::function<uint64_t()> new_key;  // Of a session.
    Pacer* pacer = nullptr;             // In a simulation: what gives lowering its time.
    Logger log;
  };
  ResumedPrograms(Reactor& reactor, Controller& controller, ClientSessions& sessions,
                  StateWriter& writer, Options options);
  ~ResumedPrograms();
  ResumedPrograms(const ResumedPrograms&) = delete;

  // Returns once they have their names.
  void bring_back(const std::vector<ProgramRecord>& programs);

 private:
  using RecordPtr = std::shared_ptr<const ProgramRecord>;
  using SessionPtr = std::shared_ptr<ClientSessions::Session>;
  SessionPtr open(const ProgramRecord& program);
  void close(const SessionPtr& session, const std::string& why);
  // These hosts can't do what an op of the program needs.
  struct Refusals {
    std::set<HostId> hosts;
    std::optional<Error> first;
    int64_t since_ns = 0;
  };
  bool note_refusal(Refusals& refusals, const Error& why);
  [[noreturn]] void throw_refused(const Refusals& refusals, bool is_held) const;
  void serve(const RecordPtr& program, SessionPtr session);
  // Suspends. From where it goes on.
  StateVersion resume(const ProgramRecord& program, SessionId id, const Refusals& refusals);
  // An executable's program, and what that takes of the controller's memory until it is compiled.
  struct Graph {
    std::shared_ptr<const Program> program;
    OwnerUse::Hold held;
  };
  using Graphs = std::vector<Graph>;
  // Suspends. Where the slice is to be smaller, the programs are then for that.
  SliceId allocate(const ProgramRecord& program, uint32_t slice, SessionId id, Graphs& graphs,
                   const Refusals& refusals, const StopToken& stop);
  PlanId compile(const ProgramRecord::Executable& executable, Graph& graph, SessionId id,
                 const std::vector<SliceId>& slices, uint64_t call);
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
