// ProgramLogs: what is logged of each program: what its client says, and what the controller knows
// of it. For who asks later why a program ended, and for who follows one that runs.
//
// Of a program the newest lines are kept, within the bounds of protocol/program_log.h. Those of a
// program that has ended stay until its owner has a newer one of the name, or kEndedMax others that
// have ended since; those of a client that only looked around go with it.
//
// Threads: the reactor's thread; wait() suspends.
// Errors: say_of_program() throws kInvalid for more than fits into a call. What is said of a
// program that is not there is dropped.
// Cost: O(1) a line; at most kLogBytesMax a program.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/program_log.h"
#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/clock.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class ProgramLogs {
 public:
  static constexpr size_t kEndedMax = 64;  // Of each owner.

  explicit ProgramLogs(const Clock& clock) : clock_(clock) {}

  void begin(SessionId program, std::string owner, std::string name);
  // Its lines are kept once it has ended.
  void keep(SessionId program);
  void end(SessionId program, const std::string& why);

  // What the controller knows.
  void say(SessionId program, std::string_view text);
  // Once a second at most: one that fails takes those behind it along, which are counted.
  void say_run_failed(SessionId program, const Error& error);
  // As Session.log in protocol/control.capnp.
  void say_of_program(SessionId program, uint64_t first, const std::vector<std::string>& lines);
  // It counts its lines from the beginning.
  void client_changed(SessionId program);

  // Of this owner and name: one that is there, else the last that was. `only`: no other than this
  // one; 0: any.
  std::optional<SessionId> find(const std::string& owner, const std::string& name,
                                uint64_t only = 0) const;
  // Behind line `after`; kUnavailable where it is kept no longer.
  ProgramLog read(SessionId program, uint64_t after) const;
  // The same, once there is something new, the program has ended, `until_ns` has come, or `stop` is
  // requested, which it throws. Suspends.
  ProgramLog wait(SessionId program, uint64_t after, int64_t until_ns, const StopToken& stop) const;
  size_t size() const { return logs_.size(); }

 private:
  struct Log {
    SessionId program;
    std::string owner, name;
    std::deque<LoggedLine> lines;
    size_t bytes = 0;
    uint64_t last = 0;       // The number of the newest line.
    uint64_t of_client = 0;  // How many its client has said.
    std::optional<int64_t> failed_ns;
    uint64_t failed_since = 0;  // Runs, of which nothing was said.
    bool is_kept = false, ended = false;
    WaitQueue changed;
  };
  using LogPtr = std::shared_ptr<Log>;
  LogPtr at(SessionId program) const;
  static ProgramLog read(const Log& log, uint64_t after);
  void add(Log& log, std::string_view text, bool of_program) const;
  void add_unsaid(Log& log) const;
  void forget_older(const Log& ended);

  const Clock& clock_;
  std::map<SessionId, LogPtr> logs_;
};

}  // namespace gangway
