// The installed plans: lowering a program for its slices, installing it on all its hosts or on
// none, and uninstalling it after its last run.
//
//   lower -> install everywhere (hosts report its needs) -> reserve -> link -> commit
//
// Threads: the reactor's thread; compile() suspends. Lowering is done on threads of a Background,
// so that a large program holds up nothing else: plans of several clients are lowered at once, and
// owners take turns.
// Errors: compile() throws kInvalid or kUnimplemented with the user's line; the error of
// does_not_fit.h when a device has too little memory for it; kOverloaded when its owner may have no
// more of the controller's memory; kUnavailable when a host is lost. After an error nothing of the
// plan is left on any host.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/hosts/objects.h"
#include "controller/owners/owner_use.h"
#include "controller/plans/lower.h"
#include "controller/plans/source_texts.h"
#include "controller/slices/slices.h"
#include "ir/graph/program.h"
#include "ir/plan/positions.h"
#include "runtime/fibers/background.h"
#include "runtime/net/pacer.h"

namespace gangway {

struct PlanRecord {
  PlanId id;
  PlanId on_hosts;  // Hosts' name for it: another one each time it is installed.
  SessionId owner;
  PlanOwner is_of;           // Its turns on the compiler's threads are this owner's, too.
  OwnerUse::Hold held;       // Its part of the controller's memory.
  size_t lowered_bytes = 0;  // The plan and its text, a part of that.
  std::shared_ptr<const Program> program;
  uint32_t runs_in_flight_max = 0;
  Dispatch dispatch = Dispatch::kParallel;
  bool overlays = false;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Positions> positions;
  std::string text;  // The plan, for people.
  uint64_t scope = 0;
  std::vector<HostId> hosts;                                 // In the order of Plan::hosts.
  std::vector<std::shared_ptr<const DeviceLayout>> layouts;  // In that of Plan::slices.
  std::vector<SliceId> slices;
  std::vector<std::string> kinds;              // Kinds of devices, one for each slice.
  std::vector<std::vector<DeviceNeed>> needs;  // One list for each host.
  // Indices of the hosts that each host writes to, as it said when it installed the plan.
  std::vector<std::set<uint32_t>> writes_to;
  std::vector<FixedText> texts;  // Texts that its sources read.
  // A host that could not install it, though another one might: the host lacks a file (kInvalid),
  // has another one, or has no memory left for it (kOverloaded).
  std::optional<HostId> refused_by;
  std::optional<HostId> short_of;  // A host whose devices had too little memory for it.
  std::shared_ptr<Holding> memory;
  std::shared_ptr<OverlaidHolding> overlaid;     // Null: its temporaries are in `memory`.
  std::shared_ptr<Holding> initialisers;         // Memory that they work in, until it is committed.
  std::shared_ptr<Holding> states;               // Until it is ready; then the slice holds them.
  Reservations output_bytes;                     // For the outputs of one run.
  std::map<uint32_t, Reservations> input_bytes;  // For an array that was put for an input.
  bool has_commit = false;
  bool may_overflow = false;              // A run may get more rows than it has room for.
  std::shared_ptr<StateVersion> version;  // Version of the states of its scope.
  std::shared_ptr<ScopeRuns> scope_runs;
  // The version in which states that are new with it have their first values (PlacedState). None:
  // it is not installed yet.
  std::optional<StateVersion> states_since;
  uint64_t prepared = 0;  // Number of runs that its hosts were told to prepare.
  // Runs that ended with an error, by the client's name, and the error of the runs behind them;
  // kept until a run of a later chain begins.
  std::map<RunId, Error> failed;
  int runs = 0;  // Number of runs that wait or are in flight.
  int in_flight = 0;
  // Number of output sets of its runs that somebody still holds; they may outlive the plan.
  std::shared_ptr<int64_t> output_sets = std::make_shared<int64_t>(0);
  bool ready = false;      // Installed on all its hosts: runs may name it.
  bool is_moving = false;  // It was installed, and is being installed on other hosts.
  bool released = false;
  std::optional<Error> broken;  // A host it needs is gone.
  // It is broken for now only: its next run installs it again (programs/runs_again.h).
  bool comes_with_next_run = false;
  bool uninstalled = true;  // Until its installation begins.
  std::shared_ptr<std::atomic<bool>> unwanted = std::make_shared<std::atomic<bool>>(false);
};

inline constexpr size_t kCompileStagesMax = 100;

// Progress of a compile.
struct CompileStage {
  std::string what;  // "step: partition".
  double part = 0;   // Part of the work of lowering that is done: 0 to 1.
};

struct CompileRequest {
  uint32_t runs_in_flight_max = 2;
  Dispatch dispatch = Dispatch::kParallel;
  bool overlaid = false;  // See LowerOptions.
  // Called on the reactor's thread, at most kCompileStagesMax times, and not after compile() ended.
  std::function<void(const CompileStage&)> on_progress;
  Pacer* pacer = nullptr;  // In a simulation: gives lowering its time.
  PlanOwner owner = {};
  OwnerUse::Hold held = {};  // Has the program; grows by the results of lowering.
  // The version that an earlier controller knew, whose program goes on; none: from now on.
  std::optional<StateVersion> states_since = {};
  std::vector<SourceText> texts;  // Texts that an earlier controller has fixed.
};

struct OwnArenas;  // does_not_fit.h

class PlanTable {
 public:
  // Gets plans that may run from now on, and plans that never will again.
  struct Watch {
    std::function<void(const PlanRecord&)> ready;
    std::function<void(PlanId)> gone;
    std::function<void(SliceId)>
        states_placed;  // A plan has placed new states that are named in it.
  };
  PlanTable(Reactor& reactor, Background& background, HostTable& hosts, SliceTable& slices,
            Watch watch = {})
      : reactor_(reactor),
        background_(background),
        hosts_(hosts),
        slices_(slices),
        watch_(std::move(watch)) {}

  // `slices`: one for each slice of the program. `holder_name` is for messages about memory.
  PlanRecord& compile(SessionId owner, const std::string& holder_name,
                      std::shared_ptr<const Program> program, const std::vector<SliceId>& slices,
                      CompileRequest request);
  // Takes down a plan that has no runs any more: all that it has on hosts goes, until
  // install_again().
  void take_down(PlanRecord& plan);
  // Installs a plan that has no runs any more where its slices lie now: it lost a host, or is to
  // have more room. `program` replaces its own, with the same inputs, outputs, sources and states.
  // Suspends. After an error the plan is broken, if it still exists.
  void install_again(PlanRecord& plan, std::shared_ptr<const Program> program,
                     const std::string& holder_name);
  void give_up(PlanRecord& plan, const Error& why);  // It is broken from now on.
  // A plan on hosts, not broken, in which one of the two hosts writes to the other. Null: none.
  PlanRecord* find_over_link(HostId a, HostId b);
  // The host at that index of a plan on hosts, which they call `on_hosts`, if `by` writes to it
  // there. O(plans).
  std::optional<HostId> written_by(HostId by, PlanId on_hosts, uint32_t host) const;
  // The hosts that write to each host, in all plans on hosts.
  std::map<HostId, std::set<HostId>> writers() const;
  // Whether there is room for the needs that hosts reported last for these plans together, except
  // what they need only while they are installed. `fits` is true, too, where one of the hosts is
  // lost, since nobody knows what they need on another. `sizes`: bytes that devices must have free
  // for it.
  struct Room {
    bool fits = true;
    std::set<int64_t> sizes;
  };
  Room room_for(const std::vector<const PlanRecord*>& plans, const std::string& holder_name);
  // Finds also a plan that is being installed, or is released; null: it is not this session's.
  PlanRecord* find(PlanId id, SessionId owner);
  // Throws kInvalid when the plan is not this session's, or is still being installed.
  PlanRecord& at(PlanId id, SessionId owner);
  void release(PlanId id);
  std::optional<SessionId> owner_of(PlanId id) const;
  void release_all(SessionId owner);
  // A run of the plan ended; the last one of a released plan uninstalls it.
  void run_ended(PlanRecord& plan);
  void host_lost(HostId host, const Error& why);
  size_t size() const { return plans_.size(); }
  const CompileCache& cache() const { return *cache_; }
  // Includes plans that are being installed, or are released.
  std::vector<PlanRecord*> all_of(SessionId owner);

 private:
  static void require_states(const Program& program, const SliceRecord& slice);
  PlanRecord place(SessionId owner, const Program& program, const std::vector<SliceId>& slices,
                   LowerOptions& options);
  std::vector<std::byte> lower(PlanRecord& plan, std::shared_ptr<const Program> program,
                               LowerOptions options, const CompileRequest& request);
  void install_in_turn(PlanRecord& plan, const std::vector<std::byte>& bytes,
                       const std::string& holder_name);
  void install(PlanRecord& plan, const std::vector<std::byte>& bytes,
               const std::string& holder_name);
  // Suspends until all hosts have answered. Throws a refusal of theirs.
  std::vector<Installed> ask_hosts(PlanRecord& plan, const std::vector<std::byte>& bytes);
  void announce(PlanRecord& plan);
  StateVersion last_ahead(const PlanRecord& plan) const;
  struct Wanted {
    std::vector<Reservation> states, others, overlaid, initialisers;
    std::vector<Reservation> its_own() const;  // All except `overlaid`.
  };
  Wanted wanted(const PlanRecord& plan);
  void reserve(PlanRecord& plan, const std::string& holder_name);
  std::map<DeviceRef, OwnArenas> own_arenas() const;
  // Does one step of the installation on every host, which it names by its index in the plan.
  // Suspends until all have done it or one can't.
  void on_all_hosts(const PlanRecord& plan,
                    const std::function<Future<void>(ExecutorPeer&, size_t)>& step);
  ExecutorPeer& peer(HostId host);
  void uninstall_if_unused(PlanId id);
  void uninstall_if_broken(PlanRecord& plan);
  void uninstall(PlanRecord& plan);

  Reactor& reactor_;
  Background& background_;
  HostTable& hosts_;
  SliceTable& slices_;
  Watch watch_;
  const std::shared_ptr<CompileCache> cache_ = std::make_shared<CompileCache>();
  std::map<PlanId, PlanRecord> plans_;
  uint64_t last_ = 0;
};

}  // namespace gangway
