// The controller: registers hosts and clients, allocates devices and memory, and schedules runs. It
// uses no sockets: service.h puts it on a network.
//
//   tables()        hosts, slices, plans, runs ...: what all programs share
//   programs()      the programs by their sessions, and what each one has for itself
//   path()          the way of a client's runs to the tables, and of their ends back
//   checkpoints()   states of programs, in files
//   shown_graphs()  what a program has compiled, for inspection
//
// Controller puts these parts together. Its own functions are those that concern several of them:
// what hosts and clients send, what a client asks for, and what is counted.
//
// Threads: the reactor's thread. A function suspends only if its comment says so; the program may
// end meanwhile.
// Ownership: peers are borrowed until host_lost() or session_closed(); messages that still come
// from them afterwards are ignored.
// Errors: bad requests of a client are that client's errors; a malformed frame throws, and the
// caller ends its connection. kUnavailable for a session that is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/programs/run_path.h"
#include "controller/scheduler/link_watch.h"
#include "controller/shown_graphs.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct ControllerOptions {
  // Silence after which a host is lost. It is suspect after 2 s, or after half of this if less.
  int64_t host_timeout_ms = 10'000;
  // Time for which a client without a connection keeps what it holds, and may come back.
  int64_t lease_ms = 60'000;
  Logger log;
  Quotas quotas;
  // Whether a process has ended. A host of which that is unknown keeps its name while it is there.
  std::function<HasEnded(const ProcessIdentity&)> has_ended = gangway::has_ended;
  // Absolute path of the folder for checkpoints of programs that ask for them. Empty: none.
  std::string checkpoint_folder;
  std::string policy = "fair";  // Where programs share devices: one of policy_names().
  // Programs share the memory of their temporaries, so that a device needs room for the largest,
  // and a program's turn is a whole run. Programs that are dispatched sequentially are excepted.
  bool overlay_memory = false;
  // Bounds of each client's runs, and of its puts and gets, that have not ended.
  uint32_t run_credits = 1024, transfer_credits = 1024;
  uint32_t sessions_max = 1024;  // Open sessions of one owner.
  // Bounds for each client. Released slices and plans count while runs still use them.
  uint32_t slices_max = ProgramRecord::kSlicesMax, plans_max = ProgramRecord::kExecutablesMax;
  OwnerBounds owner_bounds = kOwnerBounds;  // On resources of this process that owners share.
  std::shared_ptr<ChargeLog> charge_log;    // Null: charges are not logged.
  std::shared_ptr<LandingLog> landings;     // Null: landings are not logged.
};

struct ControllerCounts {
  uint64_t hosts = 0, clients = 0, slices = 0, plans = 0, arrays = 0, runs = 0, transfers = 0;

  // Sum without the hosts: 0 once all clients have gone and what they held is freed.
  uint64_t total() const { return clients + slices + plans + arrays + runs + transfers; }
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

class Controller {
 public:
  explicit Controller(Reactor& reactor, ControllerOptions options = {});
  ~Controller();

  // A host of the same owner and name whose process has ended, or is the one that registers again,
  // is lost at once, so that the new host gets its name.
  HostId add_host(HostInfo info, ExecutorPeer& peer);
  void host_lost(HostId host, const Error& why, HostEnd end = HostEnd::kLost);
  void on_message(HostId host, Message message);

  // Ends the program, and frees all that it holds. Nothing for a session that is closed.
  void session_closed(SessionId session, const std::string& why = "it was closed");
  // The program goes on without its client: calls under way end, and arrays are freed.
  void detach(SessionId session);
  void on_message(SessionId session, Message message);  // See RunPath.

  // Suspends if the shape lets the client wait, at most until `stop` is requested. `asker`, below,
  // stops with the connection that the call came over, and ends a call that only waits.
  const SliceRecord& allocate(SessionId session, const SliceShape& shape,
                              const StopToken& stop = {});
  // Decodes and verifies a wire form. Suspends. kOverloaded if its owner may have no more memory.
  ReadProgram read_program(SessionId session, std::vector<std::byte> bytes);
  // Suspends, also until a suspended program is resumed.
  const PlanRecord& compile(SessionId session, Program program, const std::vector<SliceId>& slices,
                            CompileRequest request);
  // Repeats a plan of the session: see repeats.h. kInvalid for any other plan. Suspends while the
  // program is brought back.
  void repeat(SessionId session, RepeatRequest request, const StopToken& asker = {});
  // Both suspend: see suspension.h.
  int64_t suspend_program(SessionId session, const std::string& by, const StopToken& asker = {});
  void resume_program(SessionId session, const std::string& by, const StopToken& asker = {});
  // See checkpoints.h and recovery.h. Suspends.
  void keep_checkpoints(SessionId session, SliceId slice, RecoveryOptions options,
                        const StopToken& asker = {});

  // Looks for silent hosts, for links that broke and for runs past their time limit. Returns when
  // to look again.
  int64_t tick(int64_t now_ns);

  ControllerCounts counts() const;
  // Number of entries of each table, by name. Entries that outlived their use would pile up over
  // weeks.
  std::map<std::string, size_t> census() const;
  std::vector<ProgramCounts> program_counts() const;  // For each program that is live.

  const ControllerOptions& options() const { return options_; }
  SharedTables& tables() { return tables_; }
  ProgramTable& programs() { return programs_; }
  Checkpoints& checkpoints() { return checkpoints_; }
  RunPath& path() { return path_; }
  ShownGraphs& shown_graphs() { return shown_graphs_; }

 private:
  Reactor& reactor_;
  const ControllerOptions options_;
  SharedTables tables_;
  // The destructor empties it first; fibers of the members below still look programs up then.
  ProgramTable programs_;
  Checkpoints checkpoints_;
  RunPath path_;
  StuckBoard stuck_;
  HostWatch watch_;
  LinkWatch links_;
  ShownGraphs shown_graphs_;
};

}  // namespace gangway
