// Slices: the virtual devices that clients asked for, and the physical ones they lie on.
//
// A physical device may run several virtual ones of a slice, its ranks, as many as the client asked
// for. Several slices may share a device. A PlacementPolicy (placement.h) chooses the devices of a
// slice.
//
// A slice never gets devices of hosts that are lost or drain, nor those that another slice has to
// itself, nor those that are kept for a client that waits (slice_queue.h).
//
// Threads: the reactor's thread.
// Errors: allocate() throws kInvalid if the cluster could not serve the request even if nobody used
// it (a slice never holds one device twice), saying what there is; kOverloaded if others hold the
// devices, saying who, or if draining hosts have them, naming these.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/hosts/hosts.h"
#include "controller/hosts/objects.h"
#include "controller/owners/program_names.h"
#include "controller/slices/placement.h"
#include "ir/graph/program.h"
#include "protocol/recovery_options.h"
#include "protocol/slice_shape.h"
#include "runtime/fibers/future.h"

namespace gangway {

using SliceId = Id<struct SliceTag>;
using StateVersion = Id<struct StateVersionTag>;  // Number of runs that committed on a slice.

// A state that a slice's programs have. Its parts may lie on another slice of its program.
struct PlacedState {
  std::shared_ptr<const DeviceLayout> layout;
  Type type;
  std::optional<StackedLayers> stacked = {};  // In files each layer is a tensor of its own.
  // The version in which it has its first value. Earlier versions lack it.
  StateVersion since = {};
};

// Runs that have not ended, of all plans whose states are named in one slice.
struct ScopeRuns {
  size_t open = 0;
  std::vector<RunId> prepared;  // The controller's ids, in the order of submission.
};

struct SliceRecord {
  SliceId id;
  SessionId owner;
  SliceShape shape{1};             // Its present shape.
  std::vector<DeviceRef> devices;  // Physical, each once; each has adjacent virtual devices.
  std::string placed_because;      // See placement_reason.h. Kept while it has no devices.
  uint32_t ranks_per_device = 1;
  SliceShape asked{1};  // Shape that its client asked for, before it shrank (programs/elastic.h).
  bool exclusive = false;
  int plans = 0;  // Plans that use it. Its devices are given back after the last one.
  bool released = false;
  // Memory of the states that are named in it, for each plan that created some. It outlives plans.
  std::vector<std::shared_ptr<Holding>> states;
  std::set<HostId> state_hosts;
  // The hosts' name for the states that are named in it. Each loss changes it, so that late
  // messages about the old states do not touch the new ones.
  StateScope host_scope;
  std::map<std::string, PlacedState> placed_states;  // Keyed by name.
  // States that no plan had when a host was lost, so that their values are lost.
  std::set<std::string> lost_states;
  // Runs that have committed, of all plans whose states are named in it.
  std::shared_ptr<StateVersion> version = std::make_shared<StateVersion>();
  std::shared_ptr<ScopeRuns> runs = std::make_shared<ScopeRuns>();
  // Set if its program is to go on when a host is lost: checkpoints of these states are kept.
  std::optional<RecoveryOptions> recovery;
  bool is_moving = false;  // It was lost and is being brought back (programs/recovery.h).
  // Versions up to this one were there before it was lost, and come once more.
  StateVersion comes_again;
  // Why its program could not be brought back. Its states are not those that it had, and nobody
  // sees or changes them any more.
  std::optional<Error> given_up;
  bool was_written = false;  // Its client wrote states, so runs alone can't compute them again.
  std::set<std::string> readers;  // Owners that may read its states (programs/shared_states.h).
  Future<void> installing = ready_future();  // Ready when no plan that has states in it installs.
};

class SliceTable {
 public:
  // Without names, messages say "client 3".
  explicit SliceTable(HostTable& hosts, const ProgramNames* names = nullptr,
                      std::unique_ptr<const PlacementPolicy> placement = best_fit_placement())
      : hosts_(hosts), names_(names), placement_(std::move(placement)) {}

  SliceRecord& allocate(SessionId owner, const SliceShape& shape);
  // The same in parts, for slice_queue.h. Finds devices for the slice that are not in `without`.
  // Empty: it does not fit now.
  std::vector<DeviceRef> find_place(const SliceShape& shape,
                                    const std::set<DeviceRef>& without = {}) const;
  // Devices that the slice could have if nobody held anything, preferably those that few slices lie
  // on.
  std::vector<DeviceRef> find_place_if_idle(const SliceShape& shape,
                                            const std::set<DeviceRef>& without = {}) const;
  SliceRecord& add(SessionId owner, const SliceShape& shape, std::vector<DeviceRef> devices);
  std::string holder_name(SessionId session) const;
  // Why find_place() found none.
  Error refusal(const SliceShape& shape) const;
  // The same in few words, for clients that wait: "client 3 holds 8 devices", "the cluster has 4".
  std::string in_the_way(const SliceShape& shape) const;
  // Throws kInvalid if the slice is not this session's.
  SliceRecord& at(SliceId id, SessionId owner);
  void keep(SliceId id) { ++slices_.at(id).plans; }
  void drop(SliceId id);  // A plan that used it is gone.
  // A plan created states on `hosts`. The states and their memory stay as long as the slice.
  void hold_states(SliceId id, std::shared_ptr<Holding> memory, const std::vector<HostId>& hosts);
  // Enters where the parts of a state of that name lie. Returns whether the state is new; one that
  // was there keeps its `since`.
  bool place_state(SliceId id, const std::string& name, PlacedState at);
  // The slice lost a host, and with it all states except these. Returns the lost states.
  std::vector<std::string> lose_states(SliceId id, const std::set<std::string>& all_but);
  // Makes the hosts free the states that are named in it, and gives the slice a new host_scope.
  void forget_states(SliceId id);
  // The slice has no devices until occupy() gives it some, as many as its new shape has.
  void vacate(SliceId id) { give_devices_back(slices_.at(id)); }
  // Takes back devices that occupy() has just given and that can't be used. It wakes no fibers that
  // wait for devices: they have missed nothing, and two of them would wake each other for ever.
  void undo_occupy(SliceId id) { drop_devices(slices_.at(id)); }
  void occupy(SliceId id, const SliceShape& shape, std::vector<DeviceRef> devices) {
    take_devices(slices_.at(id), shape, std::move(devices));
  }
  // Moves a slice that no plan uses off these hosts, not to devices in `kept`, which are held for a
  // client that waits. kLies: it has devices on other hosts. kIsHeld: others hold those that it
  // could have. kIsNowhere: there are none but those that its own client holds.
  enum class Elsewhere : uint8_t { kLies, kIsHeld, kIsNowhere };
  Elsewhere leave_hosts(SliceId id, const std::set<HostId>& hosts,
                        const std::set<DeviceRef>& kept = {});
  void release(SliceId id);  // Its owner has dropped it.
  void release_all(SessionId owner);
  size_t size() const { return slices_.size(); }
  // The devices that each client's slices lie on, each once.
  std::map<SessionId, std::set<DeviceRef>> devices() const;
  // Number of devices of a client's slices, counted once for each slice, also of slices that are
  // released and still used.
  int64_t devices_of(SessionId owner) const;
  // Finds a slice of any client, also one that is released and still used. Null if there is none.
  SliceRecord* find(SliceId id);
  // All slices of a client, the oldest first, with those that are released and still used.
  std::vector<SliceRecord*> all_of(SessionId owner);
  // `gone` is called with each slice that is no more.
  void watch_gone(std::function<void(SliceId)> gone) { gone_ = std::move(gone); }

 private:
  // Devices that a slice may get: now, if nobody held anything, or if no host drained either.
  enum class Holders { kCount, kIgnore, kIgnoreAndUndrain };
  std::vector<OfferedHost> offered(const SliceShape& shape, Holders holders,
                                   const std::set<DeviceRef>& without) const;
  void add_held_by(SessionId owner, const SliceShape& shape, std::set<DeviceRef>& devices) const;
  bool may_take(const SliceShape& shape, DeviceRef at, int shares) const;
  std::string who_holds(const SliceShape& shape) const;
  void erase_if_unused(SliceId id);
  void free_states(SliceRecord& slice);
  void take_devices(SliceRecord& slice, const SliceShape& shape, std::vector<DeviceRef> devices);
  void drop_devices(SliceRecord& slice);
  void give_devices_back(SliceRecord& slice);

  HostTable& hosts_;
  const ProgramNames* const names_;
  const std::unique_ptr<const PlacementPolicy> placement_;
  std::map<SliceId, SliceRecord> slices_;
  std::map<DeviceRef, int> shares_;  // Number of slices on each device.
  std::set<DeviceRef> exclusive_;    // Devices that one slice has to itself.
  std::function<void(SliceId)> gone_;
  uint64_t last_ = 0;
};

// The warning of a program that states are lost, and why: "h1 was lost".
std::string goes_on_without(const std::vector<std::string>& states, const std::string& why);

}  // namespace gangway
