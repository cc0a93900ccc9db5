// History: the operations of clients on their programs, and their results, in the order in which
// they began and ended. model.h says whether one program that runs step after step could have given
// all these results.
//
//   begin(op) -> number      a client asks
//   told(number, values)     it was done, and the client saw these values
//   not_done(number, why)    nothing of it was or will be done
//   unknown(number, why)     the client does not know whether it was done
//
// Times are places in one order: an operation that began after another one's end saw all that the
// other had seen.
//
// Threads: values; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gangway::history {

// Values of states and results, by name. "count" is the version of the states; "trace" depends on
// all committed runs and their order.
using Values = std::map<std::string, int64_t>;
std::string to_string(const Values& values);  // "count = 3, trace = 99"

enum class OpKind : uint8_t {
  kCompile,     // An executable with a state of its own is compiled.
  kRelease,     // The executable is freed, and its state with it.
  kRun,         // One run.
  kRepeat,      // `steps` runs that the controller enqueues; `done` of them were.
  kStatus,      // A repetition's progress, and its newest step's outputs.
  kRead,        // The states after all runs that were enqueued before.
  kSnapshot,    // States of one version, which another client reads.
  kCheckpoint,  // The version of the newest checkpoint, as the cluster's status has it.
};

enum class Outcome : uint8_t { kOpen, kTold, kNotDone, kUnknown };

struct Op {
  OpKind kind = OpKind::kRun;
  std::string program;
  std::string executable;  // Set for kCompile, kRelease, kRun and kRepeat.
  int64_t x = 0;           // The input of a run, or of the first step, which grows by one a step.
  int64_t steps = 0;       // kRepeat.
  int64_t version = -1;    // kSnapshot: the requested version; -1: the latest.

  // History sets the following fields.
  size_t number = 0;
  size_t begun = 0, ended = 0;  // Places in the order of all beginnings and ends.
  int controller = 0;           // Number of the controller when it began, counted from 0.
  int64_t done = 0;             // kRepeat, kStatus: steps that have committed.
  Outcome outcome = Outcome::kOpen;
  Values seen;
  std::string why;  // kNotDone, kUnknown.
};

// "#12 trainer: run of step with x = 7: count = 3, trace = 99".
std::string to_string(const Op& op);

class History {
 public:
  size_t begin(Op op);
  void told(size_t number, Values seen, int64_t done = 0);
  void not_done(size_t number, const std::string& why);
  void unknown(size_t number, const std::string& why);
  // Ends with kUnknown all operations of this program that have not ended.
  void all_unknown(const std::string& program, const std::string& why);

  // Call it when the controller ends: later operations begin under another controller, which may
  // begin at an older checkpoint.
  void controller_ended() { ++controller_; }
  int controller() const { return controller_; }

  const std::vector<Op>& ops() const { return ops_; }
  // The program's operations up to `last`, a line each; at most the newest `lines`.
  std::string print(const std::string& program, size_t last, size_t lines = 25) const;

 private:
  Op& end(size_t number, Outcome outcome);

  std::vector<Op> ops_;
  size_t clock_ = 0;
  int controller_ = 0;
};

}  // namespace gangway::history
