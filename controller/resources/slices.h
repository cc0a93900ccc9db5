// Slices: the virtual devices that clients asked for, and the physical ones they lie on.
//
// A device may run several virtual ones of a slice, its ranks, as many as the client asked for.
// Several slices may share a device. Which devices a slice lies on is a PlacementPolicy's choice
// (placement.h).
//
// Devices of hosts that are lost or drain are never given, nor those that another slice has to
// itself, nor those that are kept for a client that waits (slice_queue.h).
//
// Threads: the reactor's thread.
// Errors: allocate() throws kInvalid for what the cluster could not give if nobody used it (a
// slice never holds one device twice), saying what there is; kOverloaded for what others hold,
// saying who, and for what hosts have that drain, naming these.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/resources/hosts.h"
#include "controller/resources/objects.h"
#include "controller/resources/placement.h"
#include "ir/graph/program.h"
#include "protocol/recovery_options.h"
#include "protocol/slice_shape.h"
#include "runtime/fibers/future.h"

namespace gangway {

using SliceId = Id<struct SliceTag>;
using StateVersion = Id<struct StateVersionTag>;  // Of a slice's states: the runs that committed.

// Of states that programs of a slice have: where its parts lie, which may be another slice of its
// program.
struct PlacedState {
  std::shared_ptr<const DeviceLayout> layout;
  Type type;
  std::optional<StackedLayers> stacked = {};  // To files each layer is a tensor of its own.
  // It has its first value in this version, and in those before there are none of it.
  StateVersion since = {};
};

// Runs that have not ended, of all plans whose states are named in one slice.
struct ScopeRuns {
  size_t open = 0;
  std::vector<RunId> prepared;  // By the controller's names, in the order of their submission.
};

struct SliceRecord {
  SliceId id;
  SessionId owner;
  SliceShape shape{1};             // As it lies now.
  std::vector<DeviceRef> devices;  // Physical, each once: of virtual devices that are neighbours.
  std::string placed_because;      // As placement_reason.h says it; kept while it lies nowhere.
  uint32_t ranks_per_device = 1;
  SliceShape asked{1};  // By its client: larger, where it has shrunk since (recovery/elastic.h).
  bool exclusive = false;
  int plans = 0;  // That use it; the devices are given back after the last.
  bool released = false;
  // Of the plans whose states are named in it; they outlive the plans.
  std::vector<std::shared_ptr<Holding>> states;
  std::set<HostId> state_hosts;
  // What hosts call the states that are named in it: another name after each loss, so that what
  // they still hear of the old ones is not of the new ones.
  StateScope host_scope;
  std::map<std::string, PlacedState> placed_states;  // By name.
  // Those that no plan had when a host was lost: what they were is not there any more.
  std::set<std::string> lost_states;
  // Runs that have committed, of all plans whose states are named in it.
  std::shared_ptr<StateVersion> version = std::make_shared<StateVersion>();
  std::shared_ptr<ScopeRuns> runs = std::make_shared<ScopeRuns>();
  // Its program is to go on when a host is lost; then checkpoints of these states are kept.
  std::optional<RecoveryOptions> recovery;
  // Its program is brought back behind a restart of its controller: its states are not yet those
  // that the program goes on with, and nobody may see them.
  bool is_resuming = false;
  bool is_moving = false;  // It was lost and is being brought back (recovery/recovery.h).
  // Versions up to this one were there before it was lost, and come once more.
  StateVersion comes_again;
  // Why its program could not be brought back: its states are not those that it had, and nobody sees
  // or changes them any more.
  std::optional<Error> given_up;
  bool was_written = false;  // Its states are not only what runs have made of their first values.
  std::set<std::string> readers;  // Owners that may read its states (service/shared_states.h).
  Future<void> installing = ready_future();  // The plan whose states are named in it.
};

class SliceTable {
 public:
  // As messages name a client: "client 3 \"trainer\"".
  using HolderName = std::function<std::string(SessionId)>;
  explicit SliceTable(HostTable& hosts, HolderName holder_name = {},
                      std::unique_ptr<const PlacementPolicy> placement = best_fit_placement())
      : hosts_(hosts), holder_name_(std::move(holder_name)), placement_(std::move(placement)) {}

  SliceRecord& allocate(SessionId owner, const SliceShape& shape);
  // The same in parts, for slice_queue.h. Where the slice would lie on others than the devices in
  // `without`; empty: it does not fit now.
  std::vector<DeviceRef> find_place(const SliceShape& shape,
                                    const std::set<DeviceRef>& without = {}) const;
  // Where it would lie if nobody held anything: of such places, one that few slices lie on.
  std::vector<DeviceRef> find_place_if_idle(const SliceShape& shape,
                                            const std::set<DeviceRef>& without = {}) const;
  SliceRecord& add(SessionId owner, const SliceShape& shape, std::vector<DeviceRef> devices);
  std::string holder_name(SessionId session) const;
  // Why find_place() found none.
  Error refusal(const SliceShape& shape) const;
  // The same in few words, for who waits: "client 3 holds 8 devices", "the cluster has 4".
  std::string in_the_way(const SliceShape& shape) const;
  // Throws kInvalid when it is not this session's.
  SliceRecord& at(SliceId id, SessionId owner);
  void keep(SliceId id) { ++slices_.at(id).plans; }
  void drop(SliceId id);  // A plan that used it is gone.
  // A plan created states on `hosts`: they and their memory stay as long as the slice.
  void hold_states(SliceId id, std::shared_ptr<Holding> memory, const std::vector<HostId>& hosts);
  // Says where the parts of a state of that name lie. Returns whether the state is new; one that
  // was there keeps its `since`.
  bool place_state(SliceId id, const std::string& name, PlacedState at);
  // The slice lost a host, and its states but for these are lost with it: which ones.
  std::vector<std::string> lose_states(SliceId id, const std::set<std::string>& all_but);
  // Hosts free the states that are named in it, and what they still hold is nobody's.
  void forget_states(SliceId id);
  // It lies nowhere, until it gets these devices, as many as the shape says.
  void vacate(SliceId id) { give_devices_back(slices_.at(id)); }
  // The same of devices that it was given a moment ago and could not use. Those who wait for
  // devices have not missed them: they are not woken, else two who wait would wake each other.
  void undo_occupy(SliceId id) { drop_devices(slices_.at(id)); }
  void occupy(SliceId id, const SliceShape& shape, std::vector<DeviceRef> devices) {
    take_devices(slices_.at(id), shape, std::move(devices));
  }
  // A slice that no plan uses goes elsewhere if it lies on one of these hosts. Where others hold
  // what it could lie on (kIsHeld), or there is nothing else (kIsNowhere), it lies nowhere.
  enum class Elsewhere : uint8_t { kLies, kIsHeld, kIsNowhere };
  Elsewhere leave_hosts(SliceId id, const std::set<HostId>& hosts);
  void release(SliceId id);  // Its owner has dropped it.
  void release_all(SessionId owner);
  size_t size() const { return slices_.size(); }
  // The devices that each client's slices lie on, each once.
  std::map<SessionId, std::set<DeviceRef>> devices() const;
  // Of its slices, counted once for each, as long as a plan uses them.
  int64_t devices_of(SessionId owner) const;
  // Whosever it is, also one that is released and still used; null: there is none.
  SliceRecord* find(SliceId id);
  // All of a client's, the oldest first, with those that are released and still used.
  std::vector<SliceRecord*> all_of(SessionId owner);
  // Is told of each slice that is no more.
  void watch_gone(std::function<void(SliceId)> gone) { gone_ = std::move(gone); }

 private:
  // What a slice may lie on: now, if nobody held anything, or if no host drained either.
  enum class Holders { kCount, kIgnore, kIgnoreAndUndrain };
  std::vector<OfferedHost> offered(const SliceShape& shape, Holders holders,
                                   const std::set<DeviceRef>& without) const;
  bool may_take(const SliceShape& shape, DeviceRef at, int shares) const;
  std::string who_holds(const SliceShape& shape) const;
  void erase_if_unused(SliceId id);
  void free_states(SliceRecord& slice);
  void take_devices(SliceRecord& slice, const SliceShape& shape, std::vector<DeviceRef> devices);
  void drop_devices(SliceRecord& slice);
  void give_devices_back(SliceRecord& slice);

  HostTable& hosts_;
  const HolderName holder_name_;
  const std::unique_ptr<const PlacementPolicy> placement_;
  std::map<SliceId, SliceRecord> slices_;
  std::map<DeviceRef, int> shares_;  // Slices on each device.
  std::set<DeviceRef> exclusive_;    // Those that one slice has to itself.
  std::function<void(SliceId)> gone_;
  uint64_t last_ = 0;
};

}  // namespace gangway
