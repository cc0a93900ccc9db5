// LogBuffer: the log of one program, with lines from its client and from the controller. Users read
// it to learn why a program ended, and to follow one that runs.
//
// The newest lines are kept, within the bounds of protocol/program_log.h.
//
// Threads: the reactor's thread; wait() suspends.
// Ownership: shared by the program (program.h), by the table of those that have ended
// (ended_logs.h), and by readers that wait.
// Errors: say_of_client() throws kInvalid for more lines than a call may have.
// Cost: O(1) a line; at most kLogBytesMax.
#pragma once

#include <cstdint>
#include <deque>
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

class LogBuffer {
 public:
  LogBuffer(const Clock& clock, SessionId program) : clock_(clock), program_(program) {}
  LogBuffer(const LogBuffer&) = delete;

  // Adds a line of the controller.
  void say(std::string_view text);
  // Adds a line at most once a second: a run that fails makes those after it fail. The others are
  // counted.
  void say_run_failed(const Error& error);
  // Adds lines of the client: see Session.log in protocol/control.capnp.
  void say_of_client(uint64_t first, const std::vector<std::string>& lines);
  // A new client counts its lines from 0.
  void client_changed() { of_client_ = 0; }

  // The log is kept after its program has ended. The log of a client that only looked around is
  // not.
  void keep() { is_kept_ = true; }
  bool is_kept() const { return is_kept_; }
  // The program has ended, and no lines follow.
  void end(const std::string& why);

  // The lines after number `after`.
  ProgramLog read(uint64_t after) const;
  // Suspends until there is a new line, the program has ended, or `until_ns` has come, then reads.
  // Throws if `stop` is requested before. The caller keeps the log meanwhile.
  ProgramLog wait(uint64_t after, int64_t until_ns, const StopToken& stop);

 private:
  void add(std::string_view text, bool of_program);
  void add_unsaid();

  const Clock& clock_;
  const SessionId program_;
  std::deque<LoggedLine> lines_;
  size_t bytes_ = 0;
  uint64_t last_ = 0;                 // The number of the newest line.
  uint64_t of_client_ = 0;            // Number of lines that its client has sent.
  std::optional<int64_t> failed_ns_;  // When the last failed run got a line.
  uint64_t failed_since_ = 0;         // Failed runs since then, which got no line.
  bool is_kept_ = false, ended_ = false;
  WaitQueue changed_;
};

}  // namespace gangway
