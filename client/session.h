// Session: what a client holds at a controller, and its way there, on the reactor.
//
// It sends frames for runs, puts and gets and uses RPC for the rest (protocol/). It completes what
// the user's handles wait for. When its connection is lost it attaches again over another, and
// tells the user: handles wait for longer, and calls under way are asked again. When it has not
// come back within its lease, or the controller has ended, all of that fails with kUnavailable.
//
// Threads: the reactor's thread, except for what is done at the desk; calls that begin with
// "Suspends." may wait. The completions given to it run there too, and must not suspend.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/log_lines.h"
#include "client/reports.h"
#include "client/run_desk.h"
#include "ir/graph/program.h"
#include "protocol/messages.h"
#include "protocol/slice_shape.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/transport.h"

namespace gangway::internal {

struct PlanPort {
  std::string name;
  Type type;
};

struct CompiledPlan {
  PlanId plan;
  uint64_t scope = 0;
  std::vector<PlanPort> inputs, outputs, states;
  uint32_t sources = 0;
  std::string text;
  MemoryReport memory;
};

// Holdings of a program that was attached to.
struct HeldSlice {
  uint64_t id = 0;
  uint32_t devices = 0, ranks_per_device = 1;
};
struct HeldExecutable {
  std::string name;
  CompiledPlan plan;
  Program program;
  std::vector<uint64_t> slices;
  int64_t runs_in_flight_max = 1;
  uint64_t position = 0;
};
struct HeldByProgram {
  std::vector<HeldSlice> slices;
  std::vector<HeldExecutable> executables;
  uint64_t last_name = 0;  // The last name of a run or an array.
};

struct RepeatAsked {
  PlanId plan;
  int64_t steps = 0;
  std::vector<ScheduledInput> inputs;
  uint64_t first_name = 0, position = 0;
  RunId after;
};
struct RepeatTold {
  uint64_t number = 0, position = 0;
  RepeatStatus status;
};

enum class Drain : uint8_t { kBegin, kEnd };

// States of another program, and a version of some of them that is wanted in the client's segment.
struct OpenedStates {
  uint64_t states = 0;
  std::vector<PlanPort> list;
};
struct StatesRequest {
  struct Part {
    std::string name;
    int64_t offset = 0, bytes = 0;
  };
  uint64_t states = 0;
  std::optional<uint64_t> version;  // None: the latest.
  SegmentDescriptor segment;
  std::vector<Part> parts;
};
struct StatesAnswer {
  uint64_t version = 0;
  bool is_past = false;  // The version asked for; the runs that have begun lead to `version`.
  std::optional<Error> error = {};  // Why the version never comes.
  bool is_settled = false;          // No host writes to the request's memory any more.
};

class ControllerConnection;

class Session {
 public:
  using CopyDone = std::function<void(const CopyDoneFrame&)>;

  struct Options {
    std::string name;
    bool number_name = false;
    bool attaches = false;
    Share share;
    int64_t timeout_ms = 10'000;
    std::string token_file;  // See ConnectOptions.
    std::function<void(const std::string& line)> on_warning;
    // Returns whether the user looks at the request.
    std::function<bool(const std::string& by, int64_t grace_ms)> on_stop = {};
  };
  // Suspends.
  Session(Reactor& reactor, Network& network, const std::string& address, const Options& options);
  ~Session();

  // Ends all that is under way with kCancelled, has the controller free what the session holds, and
  // drops the connection; later calls end with kCancelled too. Suspends.
  void close();
  static Error closed_error();
  // The same, except that the session goes on without this client. Suspends.
  void detach();
  // Returns what the session holds. Suspends.
  HeldByProgram holdings();
  // Returns the number of the repetition. Suspends.
  uint64_t repeat(const RepeatAsked& asked);
  // Returns the state of the plan's last repetition. Suspends.
  RepeatTold repetition(PlanId plan, bool cancels, bool waits);

  uint64_t id() const;
  const std::string& name() const;  // The program's name, as the controller has it.
  // Most runs, and most copies, that may be submitted and not have ended.
  int64_t run_credits() const;
  int64_t copy_credits() const;

  // Suspends.
  uint64_t allocate(const SliceShape& shape,
                    const std::function<void(const std::string&)>& on_wait);
  void release_slice(uint64_t slice);
  // Suspends. `program` is its wire form, which takes long to make, so the caller makes it. A name
  // in the options is for clients that attach to the program.
  CompiledPlan compile(const std::vector<std::byte>& program, const std::vector<uint64_t>& slices,
                       const CompileOptions& options);
  void release_plan(PlanId plan);
  // Suspends.
  ClusterStatus status();
  // Returns whether the program was ended by force. Suspends.
  bool stop_program(const std::string& name, int64_t grace_ms);
  // suspend_program() returns the bytes of the program's states in host memory then. Both suspend.
  int64_t suspend_program(const std::string& name);
  void resume_program(const std::string& name);
  // Suspends.
  void drain(const std::string& host, Drain what);
  // Suspends.
  void forget(const std::string& host);
  // Suspends.
  void set_share(const Share& share);
  void allow_read(uint64_t slice, const std::string& owner);
  void keep_checkpoints(uint64_t slice, const RecoveryOptions& options);
  OpenedStates open_states(const std::string& program);
  // Sends the reports kept there, one after another, until there is no new one.
  void send_reports(std::shared_ptr<Reports> reports);
  // The same for logged lines. send_last_lines() sends those left, ahead of close() or detach().
  void send_log(std::shared_ptr<LogLines> lines);
  void send_last_lines(LogLines& lines);
  // For the calls of status_calls.h and program_graph.cc.
  ControllerConnection& connection();
  // Tells the user, in the way of the controller's warnings.
  void warn(const std::string& line) const;

  void run(const RunFrame& frame, RunDone done);
  // Other threads send runs and release arrays there; it outlives the session.
  const std::shared_ptr<RunDesk>& desk() const { return desk_; }
  void cancel(RunId run, const Error& why);
  void copy(CopyFrame frame, CopyDone done);
  // Asks for a version of other states. `done` is given that version, or the reason why it never
  // comes, in a fiber of its own. `number`: the caller's, not used before. `renew` gives the
  // request other memory where a host was lost that may still write to the first.
  // drop_reading() says that nobody waits for the version any more; `done` is called all the same.
  using ReadDone = std::function<void(const StatesAnswer&)>;
  using Renew = std::function<void(StatesRequest&)>;
  void read_states(uint64_t number, const StatesRequest& request, Renew renew, ReadDone done);
  void drop_reading(uint64_t number);
  void free(ArrayId array);

 private:
  class Impl;
  std::shared_ptr<Impl> open() const;

  std::shared_ptr<RunDesk> desk_;
  std::shared_ptr<Impl> impl_;  // Null once closed. A call under way shares it.
};

}  // namespace gangway::internal
