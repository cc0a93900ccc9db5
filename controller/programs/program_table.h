// ProgramTable: the programs of a controller by their sessions, their names, and the logs of those
// that have ended.
//
//   add() -> open(), while its session is open -> end(): its log stays for a while
//
// A session id may be that of a program that has ended meanwhile: find() returns null for it, and
// open() throws. A caller that suspends has to look its program up again.
//
// Threads: the reactor's thread. once(), come_behind(), wait_to_compile() and end_repetitions()
// suspend, and the program may end meanwhile.
// Ownership: a program is owned from add() until end(). The constructor's arguments outlive the
// programs; the checkpoints and the path need not be there before the first one is added. A peer
// outlives its program, or lives until that is detached.
// Errors: kUnavailable for a session that is closed, where not said otherwise.
// Cost: O(log programs) a call; add() O(programs).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "controller/programs/ended_logs.h"
#include "controller/programs/program.h"

namespace gangway {

// A program has begun (it has asked for devices; clients that only look around never do), or ended.
struct ProgramEvent {
  SessionId id;
  std::string name, owner;
  bool has_ended = false;
  std::string why = {};  // Why it ended.
  uint64_t runs_done = 0;
};

// Treatment of a name that a live program of the same owner has.
enum class TakenName : uint8_t { kRefused, kNumbered };  // Numbered: "train-2".

class RunPath;

class ProgramTable {
 public:
  struct Options {
    uint32_t sessions_max = 1024;  // Open sessions of one owner.
    Logger log;
  };
  // `path`: takes the steps of repetitions, and what calls of clients have created.
  ProgramTable(Reactor& reactor, SharedTables& tables, Checkpoints& checkpoints, RunPath& path,
               Options options);
  ProgramTable(const ProgramTable&) = delete;

  // `owner`: the user of the client (protocol/owner.h). kInvalid for a taken name under kRefused,
  // kOverloaded for an owner with too many sessions.
  SessionId add(std::string name, std::string owner, ClientPeer& peer, const Share& share = {},
                TakenName taken = TakenName::kNumbered);
  // Ends the program as far as it is in this table: other tables know it by its id still. Returns
  // false for a session that is closed.
  bool end(SessionId session, const std::string& why);
  // Destroys all programs, for a controller that is being destroyed: nobody is told.
  void clear() { programs_.clear(); }

  // Null if the session is closed.
  LiveProgram* find(SessionId session);
  const LiveProgram* find(SessionId session) const;
  LiveProgram& open(SessionId session);
  const LiveProgram& open(SessionId session) const;
  // The program of this owner and name that has not ended.
  std::optional<SessionId> find(const std::string& owner, const std::string& name) const {
    return tables_.names.find(owner, name);
  }
  const std::map<SessionId, LiveProgram>& all() const { return programs_; }

  // Does a call of a client that may be repeated: see call_table.h. Suspends. `asker` stops with
  // the connection that the call came over, and ends a call that only waits.
  CallTable::Created once(SessionId session, const CallTable::Call& call,
                          const CallTable::Make& make, const StopToken& asker = {});
  // Suspends until so many ReleaseFrames of the client have come.
  void come_behind(SessionId session, uint64_t releases, const StopToken& asker = {});
  // Ends the program's repetitions, each after its step. Suspends until then, or the deadline. Does
  // nothing for a session that is closed.
  void end_repetitions(SessionId session, int64_t deadline_ns);
  // Suspends while the program is suspended, which can't begin while the result is held.
  std::shared_ptr<void> wait_to_compile(SessionId session);
  // The program asks for devices, with which it begins (ProgramEvent).
  void asks_for_devices(SessionId session);

  // These do nothing for a session that is closed, except that its log, where it is kept, gets the
  // lines.
  // Sends the line to the client, and writes it to the program's log and the controller's.
  void warn(SessionId session, const std::string& line);
  // Adds a line to the program's log, as long as that is kept.
  void say(SessionId session, std::string_view line);
  void say_host_lost(HostId host, const Error& why);  // To the programs that lie on it.
  void run_ended(SessionId session, RunDoneFrame&& done);
  bool is_suspended(SessionId session) const;
  // Something has ended that suspensions may wait for.
  void look_again() { suspensions_.look_again(); }

  // A program of this owner and name, which may have ended: one that has not, else the one that
  // began last. `only`: the program must be this one; 0: any.
  std::optional<SessionId> find_log(const std::string& owner, const std::string& name,
                                    uint64_t only = 0) const;
  // The log of a program, which may have ended. kUnavailable if it is kept no longer.
  std::shared_ptr<LogBuffer> log_of(SessionId session) const;
  // Number of logs that are kept, of all programs.
  size_t logs() const { return programs_.size() + ended_logs_.size(); }

  // The record that brings the program back after a restart (record_keeper.h). None if it can't
  // be brought back, or the session is closed.
  std::optional<ProgramRecord> record_of(SessionId session) const;
  // `report` is called whenever a record may have changed, and must not suspend. Null: no calls.
  void on_record(std::function<void(SessionId)> report) { on_record_ = std::move(report); }
  void record_changed(SessionId session) const {
    if (on_record_) on_record_(session);
  }
  // `report` is called for each event, and must not suspend. Null: no calls.
  void on_program(std::function<void(const ProgramEvent&)> report) {
    on_program_ = std::move(report);
  }

 private:
  std::string free_name(const std::string& owner, std::string name, TakenName taken) const;

  Reactor& reactor_;
  SharedTables& tables_;
  Checkpoints& checkpoints_;
  RunPath& path_;
  const Options options_;
  EndedLogs ended_logs_;
  FiberGroup repetition_fibers_;
  Suspension::Shared suspensions_;
  std::function<void(const ProgramEvent&)> on_program_;
  std::function<void(SessionId)> on_record_;
  std::map<SessionId, LiveProgram> programs_;
  uint64_t last_session_ = 0;
};

}  // namespace gangway
