#include "controller/resources/slices.h"

#include <algorithm>
#include <utility>

#include "protocol/slice_shape.h"

namespace gangway {

std::vector<OfferedHost> SliceTable::offered() const {
  std::vector<OfferedHost> all;
  for (const auto& [id, host] : hosts_.all()) {
    if (host.lost) continue;
    OfferedHost& offer = all.emplace_back(
        OfferedHost{.id = id, .island = host.info.island, .devices = host.info.devices});
    for (uint32_t d = 0; d < host.info.devices; ++d) {
      const auto shared = shares_.find({id, d});
      offer.offered.push_back({d, shared == shares_.end() ? 0 : shared->second});
    }
  }
  return all;
}

std::vector<DeviceRef> SliceTable::choose(const SliceShape& shape) const {
  const std::vector<OfferedHost> offer = offered();
  const PlacementRequest request{.devices = shape.devices / shape.ranks_per_device};
  std::vector<DeviceRef> chosen = placement_->place(offer, request);
  size_t there = 0;
  for (const OfferedHost& host : offer) there += host.offered.size();
  GW_REQUIRE(!chosen.empty(), "allocate: not so many devices: expected at most ",
             there * shape.ranks_per_device, ", got ", shape.devices,
             shape.ranks_per_device == 1
                 ? std::string()
                 : cat(" with ranks_per_device = ", shape.ranks_per_device));
  return chosen;
}

SliceRecord& SliceTable::allocate(SessionId owner, const SliceShape& shape) {
  require_ranks_divide(shape.devices, shape.ranks_per_device);
  std::vector<DeviceRef> chosen = choose(shape);
  const SliceId id(++last_);
  SliceRecord& slice = slices_[id];
  slice.id = id;
  slice.owner = owner;
  slice.ranks_per_device = shape.ranks_per_device;
  slice.devices = std::move(chosen);
  // Neighbours in the mesh are neighbours in an island, and on a host.
  std::sort(slice.devices.begin(), slice.devices.end(), [this](DeviceRef a, DeviceRef b) {
    const int order = hosts_.island_of(a.host).compare(hosts_.island_of(b.host));
    return order != 0 ? order < 0 : a < b;
  });
  for (const DeviceRef& device : slice.devices) {
    ++shares_[device];
    hosts_.keep(device.host);
  }
  return slice;
}

SliceRecord& SliceTable::at(SliceId id, SessionId owner) {
  const auto found = slices_.find(id);
  GW_REQUIRE(found != slices_.end() && found->second.owner == owner && !found->second.released,
             "slice ", id, ": not a slice of this client");
  return found->second;
}

void SliceTable::drop(SliceId id) {
  --slices_.at(id).plans;
  erase_if_unused(id);
}

void SliceTable::hold_states(SliceId id, std::shared_ptr<Holding> memory,
                             const std::vector<HostId>& hosts) {
  SliceRecord& slice = slices_.at(id);
  slice.states.push_back(std::move(memory));
  for (HostId host : hosts) {
    if (slice.state_hosts.insert(host).second) hosts_.keep(host);
  }
}

void SliceTable::release(SliceId id) {
  const auto found = slices_.find(id);
  if (found == slices_.end()) return;
  found->second.released = true;
  erase_if_unused(id);
}

void SliceTable::release_all(SessionId owner) {
  std::vector<SliceId> owned;
  for (const auto& [id, slice] : slices_) {
    if (slice.owner == owner) owned.push_back(id);
  }
  for (SliceId id : owned) release(id);
}

void SliceTable::erase_if_unused(SliceId id) {
  const auto found = slices_.find(id);
  if (!found->second.released || found->second.plans > 0) return;
  SliceRecord slice = std::move(found->second);
  slices_.erase(found);
  slice.states.clear();  // Its memory first, which is the hosts'.
  // The states of programs on this slice go with it.
  const Frame frame = encode(FreeScopeFrame{{id.value}});
  for (HostId host : slice.state_hosts) {
    hosts_.send(host, frame);
    hosts_.drop(host);
  }
  for (const DeviceRef& device : slice.devices) {
    if (--shares_[device] == 0) shares_.erase(device);
    hosts_.drop(device.host);
  }
}

}  // namespace gangway
