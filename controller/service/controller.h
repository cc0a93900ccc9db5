// The controller: registers hosts and clients, allocates devices and memory, and schedules runs. It
// uses no sockets: service.h puts it on a network.
//
// Threads: the reactor's thread. Nothing suspends but what says so.
// Ownership: peers are borrowed until host_lost() or session_closed(); what still comes of them
// afterwards is ignored.
// Errors: bad requests of a client are that client's errors; a malformed frame throws, and the
// caller ends its connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/lowering/kept_records.h"
#include "controller/recovery/checkpoints.h"
#include "controller/recovery/host_watch.h"
#include "controller/recovery/program_record.h"
#include "controller/recovery/recovery.h"
#include "controller/resources/slice_queue.h"
#include "controller/scheduler/repeats.h"
#include "controller/service/call_table.h"
#include "controller/service/program_logs.h"
#include "controller/service/shared_states.h"
#include "controller/service/suspensions.h"
#include "protocol/reported.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct ControllerOptions {
  // A host that sends nothing for so long is lost; it is suspect after 2 s, or half of it.
  int64_t host_timeout_ms = 10'000;
  // A client that has lost its connection keeps what it holds for so long, and may come back.
  int64_t lease_ms = 60'000;
  Logger log;
  Quotas quotas;
  // Whether a process of this machine is no more.
  std::function<bool(const ProcessIdentity&)> has_ended = gangway::has_ended;
  // Where checkpoints of programs that ask for them lie, an absolute path; empty: nowhere.
  std::string checkpoint_folder;
  std::string policy = "fair";  // Where programs share devices: "fifo", "fair" or "priority".
  // Temporaries of programs lie over one another, so that a device needs room for the largest, and
  // a program's turn is a whole run. Not those of programs that are dispatched sequentially.
  bool overlay_memory = false;
  // Of each client: how many runs, and how many puts and gets, it may have submitted that have not
  // ended.
  uint32_t run_credits = 1024, copy_credits = 1024;
  uint32_t sessions_max = 1024;  // Open ones of one owner.
  // Of each client, with those that it has released and runs still use.
  uint32_t slices_max = ProgramRecord::kSlicesMax, plans_max = ProgramRecord::kExecutablesMax;
  OwnerBounds owner_bounds = kOwnerBounds;  // Of what all owners share in this process.
  std::shared_ptr<ChargeLog> charge_log;    // Null: nobody looks.
  std::shared_ptr<LandingLog> landings;     // The same.
  PlantedControllerBugs planted;
};

struct ControllerCounts {
  uint64_t hosts = 0, clients = 0, slices = 0, plans = 0, arrays = 0, runs = 0, copies = 0;

  // Of all but the hosts: 0 once all clients have gone and what they held is freed.
  uint64_t total() const { return clients + slices + plans + arrays + runs + copies; }
};

// What a client runs.
struct ProgramCounts {
  SessionId id;
  std::string name, owner;
  Share share;
  double used = 0;  // Part of the time of the devices that it may run on, over the last second.
  uint64_t runs_waiting = 0, runs_in_flight = 0, runs_done = 0;
  std::string waits_for;           // Slices, as SliceQueue says it; empty: none.
  uint64_t credits_used = 0;       // Runs that its client has not been told the end of.
  Reported reported;               // What it said last of itself.
  int64_t memory_bytes = 0;        // Reserved for it, on all devices together.
  std::vector<std::string> hosts;  // On which its slices lie, and on how many devices.
  uint32_t devices = 0;
  bool detached = false;                   // It goes on without a client.
  bool suspended = false;                  // Its runs wait until it is resumed.
  int64_t host_bytes = 0;                  // Then: of its states in the memory of hosts.
  std::optional<StateVersion> checkpoint;  // The number of the newest that is kept of it.
};

// An executable that who attaches to a program finds by its name.
struct NamedExecutable {
  std::string name;
  std::shared_ptr<const std::vector<std::byte>> program;  // In the wire form.
  uint64_t position = 0;                                  // Of the sources in its next run.
  std::shared_ptr<OwnerUse::Hold> held = {};              // What that takes.
};

// A program, and what it takes of the controller's memory until it is dropped.
struct ReadProgram {
  Program program;
  OwnerUse::Hold held;
};

// An executable that graph() can show.
struct ShownPlan {
  PlanId plan;
  std::string name;  // Its own, or its program's.
};

// Which executable of a program; of no name and no plan: its only one.
struct GraphRequest {
  std::string executable;
  PlanId plan;
  std::string why;       // Not empty: what ir/explain/why.h says of it.
  std::string asked_by;  // The owner whose turn on the compiler's threads that takes.
};
struct ShownGraph {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
  std::vector<std::string> kinds, placed;  // By slice: of devices, and why it lies there.
  std::string text;                        // Where it was asked why.
};

// Both, as they are sent.
struct GraphBytes {
  std::vector<std::byte> program, plan;
};

// What devices of an executable did last: all that they did, of whatever program.
struct ShownTimeline {
  ShownGraph graph;
  PlanId on_hosts;                      // What the traces call its plan.
  std::vector<HostTimeline> hosts;      // By the name of the host; of those that answered.
  std::map<std::string, Error> silent;  // Why there is none of a host.
};

// What a session has, and how far its clients have counted, for the next one.
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
  std::string why = {};  // It ended.
  uint64_t runs_done = 0;
};

// What becomes of a name that a live program of the same owner has.
enum class TakenName : uint8_t { kRefused, kNumbered };  // Numbered: "train-2".

class Controller {
 public:
  explicit Controller(Reactor& reactor, ControllerOptions options = {});

  // A host of the same owner and name whose process is no more, or is the one that registers again,
  // is lost at once, so that the one that has come in its place gets its name.
  HostId add_host(HostInfo info, ExecutorPeer& peer);
  void host_lost(HostId host, const Error& why, HostEnd end = HostEnd::kLost);
  void on_message(HostId host, Message message);

  // `owner`: who uses it (protocol/owner.h). kInvalid for a name that is taken and refused.
  SessionId add_session(std::string name, std::string owner, ClientPeer& peer,
                        const Share& share = {}, TakenName taken = TakenName::kNumbered);
  const std::string& program_name(SessionId session) const;
  void set_share(SessionId session, const Share& share);
  // What its program says of itself from now on.
  void report(SessionId session, Reported numbers);
  void session_closed(SessionId session, const std::string& why = "it was closed");
  // It goes on without its client: calls under way end, and arrays are freed.
  void detach(SessionId session);
  void attach(SessionId session, ClientPeer& peer);
  bool is_detached(SessionId session) const { return sessions_.at(session).peer == nullptr; }
  std::optional<SessionId> find_program(const std::string& owner, const std::string& name) const;
  void on_message(SessionId session, Message message);

  // Does a call of a client that may be asked again: see call_table.h. Suspends. `asker`, here and
  // below: the connection over which it is asked; what only waits ends with it.
  CallTable::Made once(SessionId session, const CallTable::Call& call, const CallTable::Make& make,
                       const StopToken& asker = {});
  // Suspends where the shape says that the client waits, up to a request to stop at most.
  const SliceRecord& allocate(SessionId session, const SliceShape& shape,
                              const StopToken& stop = {});
  void release_slice(SliceId slice);
  // Suspends. From the wire form, verified. kOverloaded where its owner may have no more memory.
  ReadProgram read_program(SessionId session, std::vector<std::byte> bytes);
  // Suspends, also while the program is suspended.
  const PlanRecord& compile(SessionId session, Program program, const std::vector<SliceId>& slices,
                            CompileRequest request);
  void release_plan(PlanId plan);
  // What is compiled of a program, and why so (shown_graphs.cc). kInvalid for what it does not
  // have. Suspends where it is asked why.
  ShownGraph graph(SessionId session, const GraphRequest& request);
  GraphBytes bytes_of(const ShownGraph& graph, const std::string& asked_by);  // Suspends.
  // Of each device the last so many events. Suspends until its hosts have answered, or are lost.
  ShownTimeline timeline(SessionId session, const GraphRequest& request, uint32_t events_max);
  // Those that it has, in the order in which they were compiled. Of open sessions.
  std::vector<ShownPlan> shown_plans(SessionId session);
  // The devices that each program's slices lie on.
  std::map<SessionId, std::set<DeviceRef>> devices_of_programs() const { return slices_.devices(); }
  // In place of an earlier one of the name. kInvalid for a name that a record can't hold
  // (program_record.h); kOverloaded where the session's named ones take too many bytes.
  void name_executable(SessionId session, PlanId plan, NamedExecutable named);
  Holdings holdings(SessionId session) const;
  // Suspends until so many calls of the client have been released.
  void come_behind(SessionId session, uint64_t releases, const StopToken& asker = {});
  // The session's plan goes on by itself: see repeats.h, of plans of this session.
  void repeat(SessionId session, RepeatRequest request, const StopToken& asker = {});
  void cancel_repetition(SessionId session, PlanId plan);
  // All of the session's: between two steps, which it waits for until it is so late. Suspends.
  void end_repetitions(SessionId session, int64_t deadline_ns);
  RepeatProgress repetition(SessionId session, PlanId plan);
  // Suspends.
  RepeatProgress wait_for_repetition(SessionId session, PlanId plan, const StopToken& asker = {});
  // Those of this session, which have been made; kInvalid for any other.
  const SliceRecord& slice(SessionId session, SliceId slice) { return slices_.at(slice, session); }
  const PlanRecord& plan(SessionId session, PlanId plan) { return plans_.at(plan, session); }

  // Both suspend: see suspensions.h.
  int64_t suspend_program(SessionId session, const std::string& by, const StopToken& asker = {});
  void resume_program(SessionId session, const std::string& by, const StopToken& asker = {});

  // States that its clients read of one another's programs. Of open sessions.
  SharedStateTable& shared_states(SessionId session) {
    require_open(session);
    return shared_states_;
  }

  Checkpoints& checkpoints() { return checkpoints_; }
  // Of its programs, also of some that have ended.
  ProgramLogs& logs() { return logs_; }

  // What brings the program back behind a restart of the controller (kept_programs.cc); none: it is
  // not one that can be. Of closed sessions too.
  std::optional<ProgramRecord> record_of(SessionId session);
  bool has_program(SessionId session) const { return sessions_.contains(session); }
  // Called whenever that may have changed; null: nobody is. Must not suspend.
  void on_record(std::function<void(SessionId)> told) { on_record_ = std::move(told); }
  void record_changed(SessionId session) const {
    if (on_record_) on_record_(session);
  }
  // What the owners have of what they share in this process, also of closed sessions.
  OwnerUse& owner_use() { return owner_use_; }
  // So much of the controller's memory, for the session's owner; kOverloaded where that may have no
  // more. `what` is what was asked for: "compile".
  OwnerUse::Hold take_memory(SessionId session, size_t bytes, const char* what);

  // See checkpoints.h and recovery.h. Suspends.
  void keep_checkpoints(SessionId session, SliceId slice, RecoveryOptions options,
                        const StopToken& asker = {});
  // For a program that an earlier controller had: its slice has fewer devices than were asked for;
  // nobody is to see its states yet; they are this version's checkpoint's; these are there no more.
  void note_asked(SessionId session, SliceId slice, const SliceShape& asked);
  void note_resuming(SessionId session, SliceId slice);
  void note_restored(SessionId session, SliceId slice, StateVersion version);
  void note_lost_states(SessionId session, SliceId slice, const std::vector<std::string>& names);
  // For such a program, before it is compiled: see SliceTable.
  SliceTable::Elsewhere leave_hosts(SessionId session, SliceId slice,
                                    const std::set<HostId>& hosts);

  // Looks for silent hosts and for runs past their time limit; says when to look again.
  int64_t tick(int64_t now_ns);

  // From now on, for the host of this name; kInvalid where nobody has it.
  void set_draining(const std::string& host, bool is_draining);
  // Its name is kept for it no longer. kInvalid where it is there.
  void forget_host(const std::string& host);
  HostTable& hosts() { return hosts_; }
  // In place of those that it had. What is held already stays, and who waits is served anew.
  void set_quotas(Quotas quotas);
  ControllerCounts counts() const;
  // How many entries each of its tables has, by name: what would pile up over weeks if it were not
  // dropped with what it belongs to.
  std::map<std::string, size_t> census() const;
  const KeptRecords& kept_records() const { return records_; }
  uint64_t reactor_longest_ms() const {
    return static_cast<uint64_t>(reactor_.longest_stretch_ns()) / 1'000'000;
  }
  std::vector<ProgramCounts> programs() const;
  uint32_t run_credits() const { return options_.run_credits; }
  uint32_t copy_credits() const { return options_.copy_credits; }
  int64_t lease_ms() const { return options_.lease_ms; }
  // By host: runs, and (counted where its stream is) frames and bytes.
  Metrics& metrics() { return metrics_; }
  // Called for each; null: nobody is. Must not suspend.
  void on_program(std::function<void(const ProgramEvent&)> told) { on_program_ = std::move(told); }
  // Woken when tick() must be called earlier than it said.
  WaitQueue& deadline_moved() { return deadline_moved_; }

 private:
  // States that nobody but a repetition changes: version `first` + i is that before its step i.
  struct RepeatedStates {
    PlanId plan;
    uint64_t scope = 0;
    uint64_t first = 0;
    uint64_t restorable_from = 0;  // Checkpoints of earlier versions are of other states.
  };
  struct Session {
    std::string name, owner;
    std::string
        holder;        // As messages about memory name it, and so for every run that reserves some.
    ClientPeer* peer;  // Null: detached.
    Share share;
    uint64_t runs = 0, copies = 0;  // That have not ended.
    uint64_t runs_done = 0;
    Reported reported;
    std::shared_ptr<CallTable> calls;
    int64_t since_ns = 0;  // When its client connected.
    std::map<PlanId, NamedExecutable> executables;
    // How far its clients have counted; what earlier ones sent is not counted against this one.
    uint64_t last_name = 0, last_request = 0;
    uint64_t before_name = 0, before_request = 0;
    bool has_asked_for_devices = false;
    bool has_chosen_name = false;  // Its client's user gave it.
    bool has_checkpoint = false;
    std::optional<RepeatedStates> repeated;
    std::map<uint64_t, uint64_t>
        put_at;  // By scope: the version in which states were written last.
    // By the client's names: what runs that have not ended have brought, where that is much; and
    // those that brought more than their owner may have.
    std::map<RunId, OwnerUse::Hold> run_bytes;
    std::set<RunId> runs_over_memory;
    std::map<PlanId, OwnerUse::Hold> repeat_bytes;  // Inputs of repetitions.
  };
  const PlanRecord& shown_plan(SessionId id, const GraphRequest& request);
  void count_names(Session& session, const RunFrame& run);
  void hold_run(Session& session, RunFrame& run);
  std::optional<Error> refusal_of_run(Session& session, const RunFrame& run);
  void require_room_for_name(SessionId session, PlanId plan, const NamedExecutable& named);
  void act(SessionId id, Session& session, Message&& message);
  Recovery::Callbacks recovery_callbacks();
  std::string waits_for(SessionId session) const;
  void tell_run_ended(SessionId session, RunDoneFrame&& done);
  void submit_step(SessionId session, RunFrame run);
  uint64_t version_ahead(uint64_t scope);
  bool is_known_run(SessionId session, RunId run) const;
  // Of a program whose states change otherwise, nothing can be said any more.
  void note_repetition(SessionId session, const PlanRecord& plan, int64_t begin);
  void note_step(SessionId session);
  void note_run(SessionId session, PlanId plan);
  void note_checkpoint(SliceId slice);
  void note_state_put(SessionId session, uint64_t scope);
  void not_by_repetition_alone(SessionId session, const std::string& why);
  void lose_old_selves(const HostInfo& info);
  void require_free_name(const HostInfo& info) const;
  std::string free_name(const std::string& owner, std::string name, TakenName taken) const;
  void let_go(SessionId session, const CallTable::Made& made);
  void start_copy(SessionId session, CopyFrame frame);
  void run_ended(SessionId session, RunDoneFrame&& done);
  void copy_ended(SessionId session, CopyKind kind, CopyDoneFrame done);
  // Throws kUnavailable when it was closed.
  void require_open(SessionId session) const;
  void tell(SessionId session, const Message& message);
  // Its client's user, the program's log and the controller's.
  void warn(SessionId session, const std::string& line);
  void log_host_lost(const HostRecord& host, const Error& why);
  std::string holder_name(SessionId session) const;
  std::string owner_of(SessionId session) const;  // Empty: it is closed.
  StatesRead read_for_checkpoint(SessionId session, const Checkpoints::Read& read,
                                 const StopToken& stop);
  std::string place_of_checkpoints(SessionId session) const;
  // What the owner of this session would hold beyond its quota.
  std::optional<OverQuota> over_quota(SessionId session, const SliceShape& shape) const;
  std::string over_memory(const std::string& holder, int64_t bytes) const;

  Reactor& reactor_;
  ControllerOptions options_;
  Metrics metrics_;
  OwnerUse owner_use_;
  ProgramLogs logs_;
  HostTable hosts_;
  SliceTable slices_;
  SliceQueue slice_queue_;
  ObjectTable objects_;
  Background background_;
  PlanTable plans_;
  RunTable runs_;
  Repeats repeats_;
  CopyTable copies_;
  SharedStateTable shared_states_;
  Suspensions suspensions_;
  Checkpoints checkpoints_;
  Recovery recovery_;
  StuckBoard stuck_;
  HostWatch watch_;
  KeptRecords records_;
  std::map<SessionId, Session> sessions_;
  WaitQueue deadline_moved_;
  std::function<void(const ProgramEvent&)> on_program_;
  std::function<void(SessionId)> on_record_;
  uint64_t last_session_ = 0;
};

}  // namespace gangway
