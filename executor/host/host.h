// Host: the devices of one executor and everything they run: installed plans, runs, arrays and
// states.
//
// It knows nothing of sockets: executor/service/service turns controller messages into these calls,
// and HostEvents back into messages. Tests and the simulator call it directly. It makes no
// scheduling decisions: runs come in ticket order.
//
// It only puts together the classes that do the work: HostPlans, HostRuns, HostArrays and
// StateMoves, each with its part of the calls below.
//
// Life of a plan: install (verify, compile, plan memory, say what is needed) -> link (open what the
// other hosts offered) -> commit_install (allocate, compute the first values of new states) ->
// start runs -> uninstall.
//
// Threads: reactor thread only; nothing here suspends. Events are delivered on the reactor thread.
// Errors: calls throw Error; a run's failure arrives as an event, never as an exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/host/host_events.h"
#include "executor/host/host_options.h"
#include "ir/plan/plan.h"
#include "protocol/install.h"
#include "protocol/messages.h"
#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/future.h"

namespace gangway {

class Compiler;
class HostArrays;
class HostBudget;
class HostDevices;
class HostPlans;
class HostRuns;
class Reactor;
class StateMoves;
class StateStore;
class StuckWatch;
class TextStore;

class Host {
 public:
  Host(Reactor& reactor, HostOptions options, HostEvents& events);
  ~Host();
  Host(const Host&) = delete;

  const HostOptions& options() const;
  std::string describe_devices() const;  // One line a device, for `gangway devices`.

  // `self`: this host's index in plan.hosts. Allocates nothing on devices yet. Throws kInvalid (bad
  // plan), kOverloaded (names what needs how much, where, and how much is free). The future is
  // ready at once if compiling does not block the device and no source reads a text. Otherwise the
  // reactor is free meanwhile, and an uninstall fails the future with kCancelled. `texts`: texts
  // that the host has read before; it does not read them again.
  Future<Installed> install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                            StateScope scope, const PlanOwner& owner = {},
                            const std::vector<SourceText>& texts = {});
  // `offers`: those of the hosts that it writes to (Installed::writes_to).
  void link(PlanId id, const std::vector<LinkOffer>& offers);
  // Allocates; ready when the initialisers of new states have run, in stream order. If one fails (a
  // user's kernel), all states that the plan created are removed, and the error has the user's
  // line. kUnavailable: a state that the plan shares went away, or another plan still initialises
  // it.
  Future<void> commit_install(PlanId id);
  // `refused`: not all hosts could install the plan, so the states that it created are removed too,
  // unless another plan shares them.
  void uninstall(PlanId id, bool refused = false);
  // Moves a program's states to host memory and frees all else that its plans have on devices; or
  // brings both back. Ready when that is done, with the bytes of host memory that the states take.
  // Either everything is moved or nothing. Plans and states that are not here, or have been moved
  // already, are skipped. Throws kUnavailable while a run or copy of them is under way, kOverloaded
  // if there is no room.
  Future<int64_t> move_states(const MoveRequest& request);

  // Does all host-side work of a run at once and enqueues the run on the devices, where it waits
  // for its grants. A request that does not fit its plan becomes a failed run, since its peers wait
  // for its part. A run of a program that is suspended here ends at once, with kUnavailable. Throws
  // kInvalid if the plan is not ready here, the ordinal is not the plan's next, more runs are in
  // flight than the plan has room for, or two of its arrays have one name.
  void prepare(const PrepareFrame& frame);
  // Gives parts of prepared runs their tickets. Throws kInvalid for a grant that breaks the order
  // (protocol/frames.capnp); runs that have ended here are skipped. The host-side work of a
  // plan that is dispatched sequentially (ir/plan/sequential.h) is done now.
  void grant(const GrantFrame& frame);
  // Number of calls for which such a frame makes this host do its work. A simulation charges the
  // host time for them.
  size_t calls_to_prepare(const PrepareFrame& frame) const;
  size_t calls_to_prepare(const GrantFrame& frame) const;
  // Keeps the run from committing if it has not committed yet. Its devices still take part in every
  // collective and pass the flag on, except for kUnavailable, which means that a peer is lost: then
  // the devices end the run where they are, without waiting for peers.
  void cancel(RunId run, ErrorKind kind, const std::string& why);

  // Arrays. The bytes are the global tensor in row-major order; each host reads or writes the part
  // in its shards.
  void put(uint64_t request, ArrayId array, PlanId like, uint32_t input, const ClientBytes& from);
  void get(uint64_t request, ArrayId array, const ClientBytes& to);
  void free(std::span<const ArrayId> arrays);

  // State, in the order of tickets: a version, never the live buffer of a later run. take_ticket()
  // comes first: it throws kInvalid for a ticket that is not above all earlier ones.
  void take_ticket(Ticket ticket);
  // `part`: empty: the whole state.
  void read_state(uint64_t request, StateScope scope, const std::string& name,
                  const ClientBytes& to, Ticket ticket, const Box& part = {});
  void write_state(uint64_t request, StateScope scope, const std::string& name,
                   const ClientBytes& from, Ticket ticket, const Box& part = {});
  void free_scope(StateScope scope);

  static constexpr int64_t kLookMs = 200;
  // Call it every kLookMs: checks whether the devices make progress (stuck_watch.h). Returns true
  // if stuck() has changed.
  bool look_for_stuck();
  const std::vector<StuckDevice>& stuck() const;
  // The entry that each device is at, a line each, for a log.
  std::string describe_work() const;

  int64_t bytes_in_use(uint32_t device) const;
  int64_t bytes_peak(uint32_t device) const;
  // Host memory for states of suspended programs and for texts.
  int64_t host_bytes() const;
  // Number of entries of each of its tables, by name. They would pile up over weeks if they were
  // not dropped with the plan or the session that they belong to.
  std::map<std::string, size_t> census() const;
  // Bytes that its devices have moved so far (docs/collectives.md says how each transfer is
  // counted).
  LinkBytes moved_bytes() const;

 private:
  Reactor& reactor_;
  // Pointers, so that users of a host do not see its devices. Each may use those before it.
  const std::unique_ptr<HostDevices> devices_;
  const std::unique_ptr<Compiler> compiler_;
  const std::unique_ptr<StateStore> states_;
  const std::unique_ptr<HostBudget> host_budget_;
  const std::unique_ptr<TextStore> texts_;
  const std::unique_ptr<HostArrays> arrays_;
  const std::unique_ptr<HostRuns> runs_;
  const std::unique_ptr<HostPlans> plans_;
  const std::unique_ptr<StateMoves> moves_;
  const std::unique_ptr<StuckWatch> stuck_;
};

}  // namespace gangway
