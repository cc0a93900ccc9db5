// The controller: registers hosts and clients, allocates devices and memory, and schedules runs. It
// uses no sockets: service.h puts it on a network.
//
// Threads: the reactor's thread. A function suspends only if its comment says so.
// Ownership: peers are borrowed until host_lost() or session_closed(); messages that still come
// from them afterwards are ignored.
// Errors: bad requests of a client are that client's errors; a malformed frame throws, and the
// caller ends its connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/plans/kept_records.h"
#include "controller/programs/checkpoints.h"
#include "controller/programs/ended_logs.h"
#include "controller/programs/program.h"
#include "controller/programs/program_record.h"
#include "controller/programs/recovery.h"
#include "controller/programs/runs_again.h"
#include "controller/programs/shared_states.h"
#include "controller/scheduler/host_watch.h"
#include "controller/slices/slice_queue.h"
#include "protocol/reported.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct ControllerOptions {
  // Silence after which a host is lost. It is suspect after 2 s, or after half of this if less.
  int64_t host_timeout_ms = 10'000;
  // Time for which a client without a connection keeps what it holds, and may come back.
  int64_t lease_ms = 60'000;
  Logger log;
  Quotas quotas;
  // Whether a process of this machine has ended.
  std::function<bool(const ProcessIdentity&)> has_ended = gangway::has_ended;
  // Absolute path of the folder for checkpoints of programs that ask for them. Empty: none.
  std::string checkpoint_folder;
  std::string policy = "fair";  // Where programs share devices: one of policy_names().
  // Programs share the memory of their temporaries, so that a device needs room for the largest,
  // and a program's turn is a whole run. Programs that are dispatched sequentially are excepted.
  bool overlay_memory = false;
  // Bounds of each client's runs, and of its puts and gets, that have not ended.
  uint32_t run_credits = 1024, copy_credits = 1024;
  uint32_t sessions_max = 1024;  // Open sessions of one owner.
  // Bounds for each client. Released slices and plans count while runs still use them.
  uint32_t slices_max = ProgramRecord::kSlicesMax, plans_max = ProgramRecord::kExecutablesMax;
  OwnerBounds owner_bounds = kOwnerBounds;  // On resources of this process that owners share.
  std::shared_ptr<ChargeLog> charge_log;    // Null: charges are not logged.
  std::shared_ptr<LandingLog> landings;     // Null: landings are not logged.
};

struct ControllerCounts {
  uint64_t hosts = 0, clients = 0, slices = 0, plans = 0, arrays = 0, runs = 0, copies = 0;

  // Sum without the hosts: 0 once all clients have gone and what they held is freed.
  uint64_t total() const { return clients + slices + plans + arrays + runs + copies; }
};

// The state of a program and what it uses.
struct ProgramCounts {
  SessionId id;
  std::string name, owner;
  Share share;
  double used = 0;  // Share of the time of the devices that it may run on, over the last second.
  uint64_t runs_waiting = 0, runs_in_flight = 0, runs_done = 0;
  std::string waits_for;           // Slices or lost devices, as text. Empty: it waits for none.
  uint64_t credits_used = 0;       // Runs whose end was not reported to its client yet.
  Reported reported;               // The numbers that it reported last.
  int64_t memory_bytes = 0;        // Reserved for it, on all devices together.
  std::vector<std::string> hosts;  // Hosts on which its slices lie.
  uint32_t devices = 0;            // Devices on which its slices lie.
  bool detached = false;           // It goes on without a client.
  bool suspended = false;          // Its runs wait until it is resumed.
  int64_t host_bytes = 0;          // States in host memory while it is suspended.
  std::optional<StateVersion> checkpoint;  // Version of its newest checkpoint.
};

// A program, and the controller's memory that it takes until it is dropped.
struct ReadProgram {
  Program program;
  OwnerUse::Hold held;
};

// An executable that graph() can show.
struct ShownPlan {
  PlanId plan;
  std::string name;  // The executable's name, or its program's if it has none.
};

// Chooses an executable of a program; without a name and a plan: its only one.
struct GraphRequest {
  std::string executable;
  PlanId plan;
  std::string why;       // A question for ir/explain/why.h. Empty: none.
  std::string asked_by;  // The owner whose turn on the compiler's threads the answer takes.
};
struct ShownGraph {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
  std::vector<std::string> kinds, placed;  // For each slice: kind of devices; why it lies there.
  std::string text;                        // The answer to GraphRequest::why.
};

// A program and its plan in their wire forms.
struct GraphBytes {
  std::vector<std::byte> program, plan;
};

// The last events on an executable's devices, also those of other programs.
struct ShownTimeline {
  ShownGraph graph;
  PlanId on_hosts;                      // The plan's id in the traces.
  std::vector<HostTimeline> hosts;      // From the hosts that answered; the trace names the host.
  std::map<std::string, Error> silent;  // Why a host, by its name, sent none.
};

// The holdings of a session, and the highest numbers that its clients used, for the next client.
struct Holdings {
  std::vector<SliceId> slices;
  std::vector<std::pair<PlanId, NamedExecutable>> executables;
  uint64_t last_call = 0, releases = 0, last_name = 0, last_request = 0;
};

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

class Controller {
 public:
  explicit Controller(Reactor& reactor, ControllerOptions options = {});
  ~Controller();

  // A host of the same owner and name whose process has ended, or is the one that registers again,
  // is lost at once, so that the new host gets its name.
  HostId add_host(HostInfo info, ExecutorPeer& peer);
  void host_lost(HostId host, const Error& why, HostEnd end = HostEnd::kLost);
  void on_message(HostId host, Message message);

  // `owner`: the user of the client (protocol/owner.h). kInvalid for a taken name under kRefused.
  SessionId add_session(std::string name, std::string owner, ClientPeer& peer,
                        const Share& share = {}, TakenName taken = TakenName::kNumbered);
  const std::string& program_name(SessionId session) const;
  void set_share(SessionId session, const Share& share);
  // Replaces the numbers that the program reports of itself.
  void report(SessionId session, Reported numbers);
  void session_closed(SessionId session, const std::string& why = "it was closed");
  // The program goes on without its client: calls under way end, and arrays are freed.
  void detach(SessionId session);
  void attach(SessionId session, ClientPeer& peer);
  bool is_detached(SessionId session) const { return !open_program(session).client.is_there(); }
  std::optional<SessionId> find_program(const std::string& owner, const std::string& name) const {
    return names_.find(owner, name);
  }
  void on_message(SessionId session, Message message);

  // Does a call of a client that may be repeated: see call_table.h. Suspends. `asker`, here and
  // below, stops with the connection that the call came over, and ends a call that only waits.
  CallTable::Made once(SessionId session, const CallTable::Call& call, const CallTable::Make& make,
                       const StopToken& asker = {});
  // Suspends if the shape lets the client wait, at most until `stop` is requested.
  const SliceRecord& allocate(SessionId session, const SliceShape& shape,
                              const StopToken& stop = {});
  // Whether allocate() refuses the shape now because devices are lacking: see slice_queue.h.
  bool lacks_devices(SessionId session, const SliceShape& shape) const {
    return slice_queue_.lacks_devices(session, shape);
  }
  void release_slice(SliceId slice);
  // Decodes and verifies a wire form. Suspends. kOverloaded if its owner may have no more memory.
  ReadProgram read_program(SessionId session, std::vector<std::byte> bytes);
  // Suspends, also until a suspended program is resumed.
  const PlanRecord& compile(SessionId session, Program program, const std::vector<SliceId>& slices,
                            CompileRequest request);
  void release_plan(PlanId plan);
  // One executable of a program, or why it was compiled so (shown_graphs.cc). kInvalid if the
  // request fits none, or several and names none. Suspends if `request.why` asks.
  ShownGraph graph(SessionId session, const GraphRequest& request);
  GraphBytes bytes_of(const ShownGraph& graph, const std::string& asked_by);  // Suspends.
  // The newest `events_max` events of each device. Suspends until hosts have answered, or are lost.
  ShownTimeline timeline(SessionId session, const GraphRequest& request, uint32_t events_max);
  // Executables in the order in which they were compiled. kUnavailable for a closed session.
  std::vector<ShownPlan> shown_plans(SessionId session);
  // The devices that each program's slices lie on.
  std::map<SessionId, std::set<DeviceRef>> devices_of_programs() const { return slices_.devices(); }
  // See named_executables.h.
  void name_executable(SessionId session, PlanId plan, NamedExecutable named);
  Holdings holdings(SessionId session) const;
  // Suspends until so many ReleaseFrames of the client have come.
  void come_behind(SessionId session, uint64_t releases, const StopToken& asker = {});
  // Repeats a plan of the session: see repeats.h. Suspends while the program is brought back.
  void repeat(SessionId session, RepeatRequest request, const StopToken& asker = {});
  void cancel_repetition(SessionId session, PlanId plan);
  // Ends the session's repetitions, each after its step. Suspends until then, or the deadline.
  void end_repetitions(SessionId session, int64_t deadline_ns);
  RepeatProgress repetition(SessionId session, PlanId plan);
  // Suspends.
  RepeatProgress wait_for_repetition(SessionId session, PlanId plan, const StopToken& asker = {});
  // A slice or plan that this session holds. kInvalid for any other id.
  const SliceRecord& slice(SessionId session, SliceId slice) { return slices_.at(slice, session); }
  const PlanRecord& plan(SessionId session, PlanId plan) { return plans_.at(plan, session); }

  // Both suspend: see suspension.h.
  int64_t suspend_program(SessionId session, const std::string& by, const StopToken& asker = {});
  void resume_program(SessionId session, const std::string& by, const StopToken& asker = {});

  // States that clients read of one another's programs. kUnavailable for a closed session.
  SharedStateTable& shared_states(SessionId session) {
    static_cast<void>(open_program(session));
    return shared_states_;
  }

  Checkpoints& checkpoints() { return checkpoints_; }
  // Adds a line to the program's log, as long as that is kept.
  void say(SessionId session, std::string_view text);
  // A program of this owner and name, which may have ended: one that has not, else the one that
  // began last. `only`: the program must be this one; 0: any.
  std::optional<SessionId> find_log(const std::string& owner, const std::string& name,
                                    uint64_t only = 0) const;
  // The log of a program, which may have ended. kUnavailable if it is kept no longer.
  std::shared_ptr<LogBuffer> log_of(SessionId session) const;

  // The record that brings the program back after a restart (record_keeper.h). None if it can't
  // be brought back, or the session is closed.
  std::optional<ProgramRecord> record_of(SessionId session);
  bool has_program(SessionId session) const { return programs_.contains(session); }
  // `told` is called whenever a record may have changed, and must not suspend. Null: no calls.
  void on_record(std::function<void(SessionId)> told) { on_record_ = std::move(told); }
  void record_changed(SessionId session) const {
    if (on_record_) on_record_(session);
  }
  // Each owner's use of this process's resources, also for sessions that are closed.
  OwnerUse& owner_use() { return owner_use_; }
  // Takes controller memory for the session's owner; kOverloaded if the owner may have no more.
  // `what` is the call that needs it: "compile".
  OwnerUse::Hold take_memory(SessionId session, size_t bytes, const char* what);

  // See checkpoints.h and recovery.h. Suspends.
  void keep_checkpoints(SessionId session, SliceId slice, RecoveryOptions options,
                        const StopToken& asker = {});
  // For a program of an earlier controller: these owners may read its states, but not yet; its
  // client asked for this shape; the states are restored from this version's checkpoint; these are
  // lost.
  void note_resuming(SessionId session, std::set<std::string> readers);
  void note_asked(SessionId session, SliceId slice, const SliceShape& asked);
  void note_restored(SessionId session, SliceId slice, StateVersion version);
  void note_lost_states(SessionId session, SliceId slice, const std::vector<std::string>& names);
  // For such a program before it is compiled: see SliceTable.
  SliceTable::Elsewhere leave_hosts(SessionId session, SliceId slice,
                                    const std::set<HostId>& hosts);

  // Looks for silent hosts and for runs past their time limit. Returns when to look again.
  int64_t tick(int64_t now_ns);

  // Drains the host of this name, or ends that. kInvalid for a name that is not known.
  void set_draining(const std::string& host, bool is_draining);
  // Frees the name of a host that is gone. kInvalid if the host is there, or the name not known.
  void forget_host(const std::string& host);
  HostTable& hosts() { return hosts_; }
  // Replaces the quotas. Holders keep what they hold, and clients that wait are looked at again.
  void set_quotas(Quotas quotas) { quotas_.set(std::move(quotas)); }
  ControllerCounts counts() const;
  // Number of entries of each table, by name. Entries that outlived their use would pile up over
  // weeks.
  std::map<std::string, size_t> census() const;
  const KeptRecords& kept_records() const { return records_; }
  uint64_t reactor_longest_ms() const {
    return static_cast<uint64_t>(reactor_.longest_stretch_ns()) / 1'000'000;
  }
  std::vector<ProgramCounts> programs() const;
  uint32_t run_credits() const { return options_.run_credits; }
  uint32_t copy_credits() const { return options_.copy_credits; }
  int64_t lease_ms() const { return options_.lease_ms; }
  // For each host: runs, and (counted in its stream) frames and bytes.
  Metrics& metrics() { return metrics_; }
  // `told` is called for each event, and must not suspend. Null: no calls.
  void on_program(std::function<void(const ProgramEvent&)> told) { on_program_ = std::move(told); }
  // Woken when tick() must be called earlier than it said.
  WaitQueue& deadline_moved() { return deadline_moved_; }

 private:
  const PlanRecord& shown_plan(SessionId id, const GraphRequest& request);
  void act(LiveProgram& program, Message&& message);
  Recovery::Callbacks recovery_callbacks();
  RunsAgain::Callbacks runs_again_callbacks();
  void submit_to_table(SessionId session, RunFrame&& run, const std::optional<Error>& refused);
  void look_again();
  std::string waits_for(SessionId session) const;
  void tell_run_ended(SessionId session, RunDoneFrame&& done);
  void submit_step(SessionId session, RunFrame run);
  bool is_known_run(SessionId session, RunId run) const;
  // The program of this plan. Throws as plan() does, or kUnavailable if the session is closed.
  LiveProgram& program_of(SessionId session, PlanId plan);
  void lose_old_selves(const HostInfo& info);
  void require_free_name(const HostInfo& info) const;
  std::string free_name(const std::string& owner, std::string name, TakenName taken) const;
  void let_go(SessionId session, const CallTable::Made& made);
  void start_copy(SessionId session, CopyFrame frame);
  void run_ended(SessionId session, RunDoneFrame&& done, bool is_stopped);
  void run_ended_for_good(SessionId session, RunDoneFrame&& done);
  void copy_ended(SessionId session, CopyKind kind, CopyDoneFrame done);
  // Null if the session is closed.
  LiveProgram* live(SessionId session);
  const LiveProgram* live(SessionId session) const;
  // Throws kUnavailable if the session is closed.
  LiveProgram& open_program(SessionId session);
  const LiveProgram& open_program(SessionId session) const;
  void tell(SessionId session, const Message& message);
  // Sends the line to the client, and writes it to the program's log and the controller's.
  void warn(SessionId session, const std::string& line);
  void log_host_lost(const HostRecord& host, const Error& why);
  StatesRead read_for_checkpoint(SessionId session, const Checkpoints::Read& read,
                                 const StopToken& stop);

  Reactor& reactor_;
  ControllerOptions options_;
  Metrics metrics_;
  OwnerUse owner_use_;
  ProgramNames names_;
  EndedLogs ended_logs_;
  HostTable hosts_;
  SliceTable slices_;
  OwnerQuotas quotas_;
  SliceQueue slice_queue_;
  ObjectTable objects_;
  Background background_;
  PlanTable plans_;
  RunTable runs_;
  FiberGroup repetition_fibers_;
  CopyTable copies_;
  SharedStateTable shared_states_;
  Suspension::Shared suspensions_;
  std::function<void(const ProgramEvent&)> on_program_;
  std::function<void(SessionId)> on_record_;
  // The destructor empties it first; fibers of the members below still look programs up then.
  std::map<SessionId, LiveProgram> programs_;
  RunsAgain runs_again_;
  Checkpoints checkpoints_;
  Recovery recovery_;
  StuckBoard stuck_;
  HostWatch watch_;
  KeptRecords records_;
  WaitQueue deadline_moved_;
  uint64_t last_session_ = 0;
};

}  // namespace gangway
