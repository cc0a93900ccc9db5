// Slices: the virtual devices that clients asked for, and the physical ones they lie on.
//
// A device may run several virtual ones of a slice, its ranks, as many as the client asked for.
// Several slices may share a device. Which devices a slice lies on is a PlacementPolicy's choice
// (placement.h).
//
// Threads: the reactor's thread.
// Errors: allocate() throws kInvalid when there are not so many devices at all (a slice never holds
// one device twice), and for ranks that do not divide them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/resources/hosts.h"
#include "controller/resources/objects.h"
#include "controller/resources/placement.h"
#include "runtime/fibers/future.h"

namespace gangway {

using SliceId = Id<struct SliceTag>;

// What a client asks for: `devices` virtual ones, so many of them on each physical one.
struct SliceShape {
  SliceShape(uint32_t virtual_devices, uint32_t on_each = 1)
      : devices(virtual_devices), ranks_per_device(on_each) {}

  uint32_t devices = 1;
  uint32_t ranks_per_device = 1;
};

struct SliceRecord {
  SliceId id;
  SessionId owner;
  std::vector<DeviceRef> devices;  // Physical, each once: of virtual devices that are neighbours.
  uint32_t ranks_per_device = 1;
  int plans = 0;  // That use it; the devices are given back after the last.
  bool released = false;
  // Of the plans whose states are named in it; they outlive the plans.
  std::vector<std::shared_ptr<Holding>> states;
  std::set<HostId> state_hosts;
  // By name: where its parts lie, which may be another slice of its program.
  std::map<std::string, std::shared_ptr<const DeviceLayout>> state_layouts;
  Future<void> installing = ready_future();  // The plan whose states are named in it.
};

class SliceTable {
 public:
  explicit SliceTable(HostTable& hosts,
                      std::unique_ptr<const PlacementPolicy> placement = best_fit_placement())
      : hosts_(hosts), placement_(std::move(placement)) {}

  SliceRecord& allocate(SessionId owner, const SliceShape& shape);
  // Throws kInvalid when it is not this session's.
  SliceRecord& at(SliceId id, SessionId owner);
  void keep(SliceId id) { ++slices_.at(id).plans; }
  void drop(SliceId id);  // A plan that used it is gone.
  // A plan created states on `hosts`: they and their memory stay as long as the slice.
  void hold_states(SliceId id, std::shared_ptr<Holding> memory, const std::vector<HostId>& hosts);
  // Where the parts of a state of that name lie.
  void place_state(SliceId id, const std::string& name, std::shared_ptr<const DeviceLayout> at) {
    slices_.at(id).state_layouts[name] = std::move(at);
  }
  void release(SliceId id);  // Its owner has dropped it.
  void release_all(SessionId owner);
  size_t size() const { return slices_.size(); }

 private:
  // What slices may lie on.
  std::vector<OfferedHost> offered() const;
  std::vector<DeviceRef> choose(const SliceShape& shape) const;
  void erase_if_unused(SliceId id);

  HostTable& hosts_;
  const std::unique_ptr<const PlacementPolicy> placement_;
  std::map<SliceId, SliceRecord> slices_;
  std::map<DeviceRef, int> shares_;  // Slices on each device.
  uint64_t last_ = 0;
};

}  // namespace gangway
