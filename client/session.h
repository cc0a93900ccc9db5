// Session: what a client holds at a controller, and every call that it makes there.
//
// The handles of client.h and the objects behind them call it. A call that waits for an answer goes
// to the client's reactor and asks over the ControllerConnection (connection.h). Runs, copies and
// releases are frames, which nobody waits for here; it completes what the handles wait for. When
// its connection is lost it attaches again over another, and tells the user: handles wait for
// longer, and calls under way are asked again. When it has not come back within its lease, or the
// controller has ended, all of that fails with kUnavailable; once it is closed, with kCancelled.
//
// Threads: public functions: any, or a fiber of the client's reactor. A function whose comment says
// "Waits." blocks a thread and suspends a fiber. Completions given to it run on the reactor, and
// must not suspend.
// Ownership: handles and the objects behind them share it. It owns the reactor's thread, so nothing
// that the reactor keeps may hold it, or a handle: fibers of its own end in close() and detach().
// Errors: those of the controller; kCancelled once it is closed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/bulk.h"
#include "client/client.h"
#include "client/cluster.h"
#include "client/log_lines.h"
#include "client/notify.h"
#include "client/reports.h"
#include "client/run_desk.h"
#include "client/timeline.h"
#include "ir/graph/program.h"
#include "protocol/messages.h"
#include "protocol/slice_shape.h"
#include "runtime/fibers/ask.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/frames.h"
#include "runtime/net/transport.h"

namespace gangway::internal {

struct PlanPort {
  std::string name;
  Type type;
};

struct CompiledPlan {
  PlanId plan;
  std::vector<PlanPort> inputs, outputs, states;
  uint32_t sources = 0;
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
struct RepeatReport {
  uint64_t number = 0, position = 0;
  RepeatStatus status;
};

enum class Drain : uint8_t { kBegin, kEnd };
enum class Suspend : uint8_t { kBegin, kEnd };

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

// The executable that Client::graph() and its like ask about, by its name or its plan.
struct GraphAsked {
  std::string name, executable = {};
  PlanId plan = {};
  std::string why = {};  // See Executable::explain().
};

class ControllerConnection;

class Session : public std::enable_shared_from_this<Session> {
 public:
  using MakeCluster = std::function<std::unique_ptr<Cluster>(Reactor&)>;
  enum class Joins : uint8_t { kAsNew, kDetached };
  // Has a reactor thread of its own. Waits.
  Session(const MakeCluster& make, const ConnectOptions& options, Joins joins = Joins::kAsNew);
  // Runs on the caller's reactor (simulations). Waits.
  Session(Reactor& reactor, Network& network, const std::string& address,
          const ConnectOptions& options, Joins joins = Joins::kAsNew);
  ~Session();
  Session(const Session&) = delete;

  // Ends all that is under way with kCancelled, has the controller free what the session holds, and
  // drops the connection; later calls end with kCancelled too. Ends a local cluster. Waits.
  void close();
  // The same, except that the session goes on without this client. Waits.
  void detach();
  void require_open() const;

  const std::string& name() const { return name_; }  // The program's, as the controller has it.
  bool has_chosen_name() const { return has_chosen_name_; }
  const std::string& address() const { return address_; }
  bool stop_requested();

  ArrayId new_array() { return ArrayId(base() + ++names_); }
  RunId new_run() { return RunId(base() + ++names_); }
  // Returns the first of `count` names that follow one another.
  uint64_t new_names(uint64_t count) { return base() + names_.fetch_add(count) + 1; }
  uint64_t new_reading() { return ++names_; }  // Number for read_states().

  // Handles to what the program holds that was attached to; the same ones while any lives. Wait.
  std::vector<std::shared_ptr<SliceImpl>> held_slices();
  std::shared_ptr<ExecutableImpl> held_executable(const std::string& name);
  HeldByProgram holdings();

  // The next ones wait.
  uint64_t allocate(const SliceShape& shape,
                    const std::function<void(const std::string&)>& on_wait);
  // `program` is its wire form, which takes long to make, so the caller makes it. A name in the
  // options is for clients that attach to the program.
  CompiledPlan compile(const std::vector<std::byte>& program, const std::vector<uint64_t>& slices,
                       const CompileOptions& options);
  // Returns the number of the repetition.
  uint64_t repeat(const RepeatAsked& asked);
  // Returns the state of the plan's last repetition.
  RepeatReport repetition(PlanId plan, bool cancels, bool waits);
  ClusterStatus status();
  ProgramLog logs(const std::string& program, const LogRequest& request);
  ProgramGraph graph(const GraphAsked& asked);
  std::string explain(const GraphAsked& asked);
  // Returns whether the program was ended by force.
  bool stop_program(const std::string& program, int64_t grace_ms);
  // Returns the bytes of the program's states in host memory then.
  int64_t suspend_program(const std::string& program, Suspend what);
  void drain(const std::string& host, Drain what);
  void forget(const std::string& host);
  void set_share(const Share& share);
  void allow_read(uint64_t slice, const std::string& owner);
  void keep_checkpoints(uint64_t slice, const RecoveryOptions& options);
  OpenedStates open_states(const std::string& program);
  // Tells the user, in the way of the controller's warnings.
  void warn(const std::string& line);

  // The next ones wait for nothing. Frames of one thread are sent in the order of its calls, save
  // that released arrays may be reported behind its next run.
  void release_slice(uint64_t slice);
  void release_plan(PlanId plan);
  // send_run() sends a run and release() releases an array: on this thread where that can be, else
  // on the reactor. A run that is not the only one in flight goes by the reactor, which sends and
  // receives several at once.
  void send_run(RunFrame frame, RunDone done, bool is_only_one);
  void release(ArrayId array);
  void free(ArrayId array);  // The same as release(), always on the reactor.
  void cancel(RunId run, const Error& why);
  void transfer(HostTransferFrame frame, TransferDone done);
  // Asks for a version of other states. `done` is given that version, or the reason why it never
  // comes, on the reactor, and must not suspend. `number`: new_reading(). `renew` gives the request
  // other memory where a host was lost that may still write to the first. drop_reading() says that
  // nobody waits for the version any more; `done` is called all the same.
  using ReadDone = std::function<void(const StatesAnswer&)>;
  using Renew = std::function<void(StatesRequest&)>;
  void read_states(uint64_t number, const StatesRequest& request, Renew renew, ReadDone done);
  void drop_reading(uint64_t number);
  // The newest report is sent, at most five times a second, and so are logged lines.
  void report(Reported numbers);
  void log(const std::string& text);

  Notify notify;
  Bulk bulk{*this};
  // Number of runs that were submitted and have not ended, and the most that the controller allows.
  // Guarded by notify.mutex.
  std::shared_ptr<int64_t> in_flight = std::make_shared<int64_t>(0);
  int64_t run_credits = 0;
  // Number of chains with a failed run of which the user is still to be told (failed_runs.h).
  const std::shared_ptr<std::atomic<int64_t>> untold_chains =
      std::make_shared<std::atomic<int64_t>>(0);

 private:
  // A reading of another program's states.
  struct Reading {
    uint64_t call = 0;  // 0: not asked yet.
    ReadDone done;
    bool is_dropped = false;
  };

  // Runs body on the reactor, in a fiber, and waits for it.
  template <class Body>
  auto call(const char* what, Body body) {
    if (notify.is_at_home()) return body();
    return thread_->ask(what, std::move(body));
  }
  // Runs body on the reactor, soon. It may find the session closed.
  void post(std::function<void()> body);
  uint64_t base() const { return id_ << 40; }  // Names of this session's runs and arrays are above.
  bool may_pass_reactor() const;
  std::shared_ptr<SliceImpl> held_slice(const HeldSlice& held);  // With held_mutex_ held.
  std::vector<std::shared_ptr<SliceImpl>> slices_of(const HeldByProgram& all);

  // The other functions are for the reactor's thread. A function that asks the controller
  // suspends.
  void open(Network& network, const std::string& address, const ConnectOptions& options,
            Joins joins);
  void open_frames();
  void frames_ended(ControllerConnection* connection);
  enum class Ends : uint8_t { kClosed, kLeft };
  void end_connection(Ends how);
  void give_up_opening(Joins joins);
  void leave();
  void end_cluster();
  void gone_for_good(const Error& why);
  Error fail_all(const Error& why);
  std::optional<Error> why_ended() const;
  // The connection, which a call under way shares. Throws once the session is closed.
  std::shared_ptr<ControllerConnection> connection() const;
  static Error closed_error();

  void on_message(Message message);
  void send(const Message& message);
  void send_freed();
  void look_for_released();
  uint64_t mark();
  void release_call(uint64_t call);

  template <class Body>
  std::invoke_result_t<const Body&, uint64_t> made(const Body& body);
  uint64_t ask_for_slice(const SliceShape& shape);
  uint64_t wait_for_slice(const SliceShape& shape,
                          const std::function<void(const std::string&)>& on_wait);
  std::string waits_for();
  HeldByProgram ask_holdings();

  std::optional<StatesAnswer> read_states_now(uint64_t number, const StatesRequest& asked);
  bool is_wanted(uint64_t reading) const;
  template <class Next, class Send>
  void send_in_turn(const char* name, const Next& next, const Send& send_one);
  void send_last_lines();

  // For any thread: constant once connected, or with a lock of its own.
  uint64_t id_ = 0;
  std::string name_, address_;
  bool has_chosen_name_ = false, is_attached_ = false, is_local_ = false;
  std::unique_ptr<RunDesk> desk_;
  Reports reports_;
  LogLines lines_;
  std::mutex held_mutex_;  // Guards the next two, handles of what was attached to.
  std::map<uint64_t, std::weak_ptr<SliceImpl>> held_slices_;
  std::map<PlanId, std::weak_ptr<ExecutableImpl>> held_executables_;
  std::atomic<uint64_t> names_{0};
  std::atomic<uint64_t> posted_{0};  // Bodies that the reactor has not run yet.
  std::atomic<bool> closed_{false};
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> looks_for_stops_{false};  // The user has called stop_requested() once.

  // For the reactor's thread alone.
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Cluster> cluster_;
  // Warns if the certificate ends within a month.
  void warn_of_certificate(const std::optional<Certificate>& own) const;

  std::function<void(const std::string&)> warn_;
  std::optional<std::string> stopped_by_;  // Names the user who asked the program to end.
  bool controller_ends_ = false;
  bool is_leaving_ = false;
  std::optional<Result<void>> frames_end_;  // How the frame stream has ended.
  std::optional<Error> gone_;               // Why the session is lost or closed.
  uint64_t last_call_ = 0, releases_ = 0, last_request_ = 0;
  std::map<uint64_t, uint64_t> slices_;  // The calls that made them.
  std::map<PlanId, uint64_t> plans_;
  std::map<uint64_t, TransferDone> transfers_;
  std::map<uint64_t, Reading> readings_;
  std::vector<ArrayId> freed_;  // Arrays of which the controller has not been told yet.
  std::shared_ptr<ControllerConnection> connection_;  // Null once closed.
  std::unique_ptr<FrameStream> frames_;
  std::unique_ptr<FiberGroup> fibers_;

  std::unique_ptr<ReactorThread> thread_;  // Ends first. Null: the caller's reactor.
};

// A client on a reactor that already runs, as the simulator uses it.
Client connect_on(Reactor& reactor, Network& network, const std::string& address,
                  const ConnectOptions& options = {});
Client attach_on(Reactor& reactor, Network& network, const std::string& address,
                 const ConnectOptions& options);

}  // namespace gangway::internal
