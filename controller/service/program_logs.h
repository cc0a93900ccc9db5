// ProgramLogs: the log of each program, with lines from its client and from the controller. Users
// read it to learn why a program ended, and to follow one that runs.
//
// The newest lines of a program are kept, within the bounds of protocol/program_log.h. The log of a
// program that has ended is kept until a newer program of its owner and name ends, or kEndedMax
// other programs of its owner have ended since. The log of a client that only looked around goes
// with it.
//
// Threads: the reactor's thread; wait() suspends.
// Errors: say_of_program() throws kInvalid for more lines than a call may have. Lines for a program
// that is not there are dropped.
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
  static constexpr size_t kEndedMax = 64;  // Ended programs of each owner.

  explicit ProgramLogs(const Clock& clock) : clock_(clock) {}

  void begin(SessionId program, std::string owner, std::string name);
  // The program's lines are kept after it has ended.
  void keep(SessionId program);
  void end(SessionId program, const std::string& why);

  // Adds a line of the controller.
  void say(SessionId program, std::string_view text);
  // Adds a line at most once a second: a run that fails makes those after it fail. The others are
  // counted.
  void say_run_failed(SessionId program, const Error& error);
  // Adds lines of the client: see Session.log in protocol/control.capnp.
  void say_of_program(SessionId program, uint64_t first, const std::vector<std::string>& lines);
  // A new client counts its lines from 0.
  void client_changed(SessionId program);

  // A program of this owner and name: one that has not ended, else the one that began last. `only`:
  // the program must be this one; 0: any.
  std::optional<SessionId> find(const std::string& owner, const std::string& name,
                                uint64_t only = 0) const;
  // The lines after number `after`. kUnavailable if the log is kept no longer.
  ProgramLog read(SessionId program, uint64_t after) const;
  // Suspends until there is a new line, the program has ended, or `until_ns` has come, then reads.
  // Throws if `stop` is requested before.
  ProgramLog wait(SessionId program, uint64_t after, int64_t until_ns, const StopToken& stop) const;
  size_t size() const { return logs_.size(); }

 private:
  struct Log {
    SessionId program;
    std::string owner, name;
    std::deque<LoggedLine> lines;
    size_t bytes = 0;
    uint64_t last = 0;                 // The number of the newest line.
    uint64_t of_client = 0;            // Number of lines that its client has sent.
    std::optional<int64_t> failed_ns;  // When the last failed run got a line.
    uint64_t failed_since = 0;         // Failed runs since then, which got no line.
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
