// Host: the devices of one executor and everything they run: installed plans, runs, arrays and
// states.
//
// It knows nothing of sockets: executor/service/service turns controller messages into these calls,
// and HostEvents back into messages; tests and the simulator call it directly. It decides nothing
// about scheduling: runs come in ticket order.
//
// Life of a plan: install (verify, compile, plan memory, say what is needed) -> link (open
// what the other hosts offered) -> commit_install (allocate, compute the first values of
// new states) -> start runs -> uninstall.
//
// Threads: reactor thread only; nothing here suspends. Events are delivered on the reactor thread.
// Errors: calls throw Error; a run's failure arrives as an event, never as an exception.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/transfers/planted_bugs.h"
#include "ir/plan/islands.h"
#include "ir/plan/plan.h"
#include "protocol/install.h"
#include "protocol/messages.h"
#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/future.h"

namespace gangway {

namespace cuda {
class Driver;
}
class LandingLog;
class OrderLog;
class Reactor;
class SimFabric;
class SimHost;
class Tracer;
class TrustedFiles;

enum class DeviceKind : uint8_t { kCpu, kSim, kCuda };

struct HostOptions {
  std::string name;
  std::string island = kMainIsland;  // As ir/plan/islands.h says.
  DeviceKind kind = DeviceKind::kCpu;
  int devices = 1;
  int64_t memory_bytes = 0;  // For each device; 0: an equal share of the machine's memory.
  // Of the host, for states of suspended programs and for texts that sources read, together: it is
  // named after what came first. 0: half of the machine's memory.
  int64_t suspended_bytes = 0;
  int threads = 0;           // Intra-op threads of each device; 0: cores / devices, at least 1.
  Tracer* tracer = nullptr;  // Gets a row for each device; must outlive the host.
  // What the devices do is written down there, and where they write in memory of clients; none:
  // nowhere.
  std::shared_ptr<OrderLog> order_log;
  std::shared_ptr<LandingLog> landings;
  // Collectives that hold a device begin by ticket. Tests switch it off to show what that prevents.
  bool order_collectives = true;
  PlantedTransferBugs planted_in_transfers;
  // What users' kernels, and programs of owners other than the controller's user, may read; null:
  // all that this process can.
  std::shared_ptr<const TrustedFiles> trusted;
  // kCuda: a driver for each card; device d is on card d modulo their number.
  std::vector<std::shared_ptr<cuda::Driver>> gpus;
  // kSim: through what the simulated hosts of one process reach one another; none: a host alone.
  std::shared_ptr<SimFabric> fabric;
  // kSim: what its devices are like, and what a simulation does to them; none: the usual.
  std::shared_ptr<SimHost> sim;
};

// A log for all hosts of a cluster in this process, which a program of tests checks when they are
// gone; null in all other programs (executor/replay/order_log.h).
std::shared_ptr<OrderLog> checked_order_log();

class HostEvents {
 public:
  virtual ~HostEvents() = default;
  // This host's part of a run ended. With an error the run did not commit; `culprit` says whether
  // this host raised it (the others only heard of it). Without, scalar outputs of at most
  // kSmallBytesMax bytes come along, so that item() costs no second trip.
  virtual void run_done(RunDoneFrame done) = 0;
  // Devices have ended sections of runs that are granted section by section. What this does not
  // tell comes with the end of the run.
  virtual void progress(ProgressFrame) {}
  virtual void copy_done(CopyDoneFrame done) = 0;  // A put or get ended.
};

class Host {
 public:
  Host(Reactor& reactor, HostOptions options, HostEvents& events);
  ~Host();
  Host(const Host&) = delete;

  const HostOptions& options() const;
  std::string describe_devices() const;  // One line a device, for `gangway devices`.

  // `self`: this host's index in plan.hosts. Allocates nothing on devices yet. Throws kInvalid (bad
  // plan), kOverloaded (names what needs how much, where, and how much is free).
  // Ready at once where compiling does not block the device and no source reads a text; else the
  // reactor is free meanwhile, and an uninstall makes it kCancelled. `texts`: those that it has
  // read before, of which no more is read now.
  Future<Installed> install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                            StateScope scope, const PlanOwner& owner = {},
                            const std::vector<SourceText>& texts = {});
  // The offers of all hosts of the plan.
  void link(PlanId id, const std::vector<LinkOffer>& offers);
  // Allocates; ready when the initialisers of new states have run, in stream order. Where one fails
  // (a user's kernel), all states that the plan created are gone, and the error has the user's
  // line. kUnavailable: a state that it shares went away, or another plan still initialises it.
  Future<void> commit_install(PlanId id);
  // `refused`: not all hosts could install it, so states that it created go too, unless another
  // plan shares them.
  void uninstall(PlanId id, bool refused = false);
  // A program's states go to host memory, and all else that its plans have on devices is freed; or
  // both come back. Ready when that is done, with the bytes of host memory that the states take.
  // All of it or nothing. What is not here, or has been moved already, is passed over. Throws
  // kUnavailable while something of them is under way, kOverloaded where there is no room.
  Future<int64_t> move_states(const MoveRequest& request);

  // Does everything host-side of a run at once, and puts it on the devices, where it waits for its
  // grants. A request that does not fit its plan becomes a poisoned run, since its peers wait for
  // its part. One of a program that is suspended here ends at once, with kUnavailable. Throws
  // kInvalid where the plan is not ready here, the ordinal is not the plan's next, more runs are in
  // flight than the plan has room for, or two of its arrays have one name.
  void prepare(const PrepareFrame& frame);
  // Gives parts of prepared runs their tickets. Throws kInvalid for what breaks the order
  // (protocol/frames.capnp); runs that have ended here are passed over. What is host-side of nodes
  // that are dispatched sequentially (ir/plan/sequential.h) is done now.
  void grant(const GrantFrame& frame);
  // The calls for which such a frame will have this host do its work: for simulations, which give
  // it its time.
  size_t calls_to_prepare(const PrepareFrame& frame) const;
  size_t calls_to_prepare(const GrantFrame& frame) const;
  // Keeps the run from committing if it has not committed yet; its devices still take part in every
  // collective, passing the flag on. kUnavailable means that a peer is lost: then the devices end
  // the run where they are, without waiting for peers.
  void cancel(RunId run, ErrorKind kind, const std::string& why);

  // Arrays. The bytes are the global tensor in row-major order; each host takes or gives its
  // shards.
  void put(uint64_t request, ArrayId array, PlanId like, uint32_t input, const ClientBytes& from);
  void get(uint64_t request, ArrayId array, const ClientBytes& to);
  void free(std::span<const ArrayId> arrays);

  // State, in the order of tickets: a version, never the live buffer of a later run. take_ticket()
  // comes first: it throws kInvalid for a ticket that is not above all earlier ones.
  void take_ticket(Ticket ticket);
  // `part`: empty: all of it.
  void get_state(uint64_t request, StateScope scope, const std::string& name, const ClientBytes& to,
                 Ticket ticket, const Box& part = {});
  void put_state(uint64_t request, StateScope scope, const std::string& name,
                 const ClientBytes& from, Ticket ticket, const Box& part = {});
  void free_scope(StateScope scope);

  static constexpr int64_t kLookMs = 200;
  // To be called every kLookMs: looks whether the devices go on (stuck_watch.h). True: stuck() says
  // something else than before.
  bool look_for_stuck();
  const std::vector<StuckDevice>& stuck() const;
  // What each device is at, a line each, for a log.
  std::string describe_work() const;

  int64_t bytes_in_use(uint32_t device) const;
  int64_t bytes_peak(uint32_t device) const;
  // Of host memory, for states of suspended programs and for texts.
  int64_t host_bytes() const;
  // What its devices moved so far (docs/collectives.md says what counts as how much).
  LinkBytes moved_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gangway
