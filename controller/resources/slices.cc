#include "controller/resources/slices.h"

#include <algorithm>
#include <tuple>

namespace gangway {

SliceRecord& SliceTable::allocate(SessionId owner, uint32_t devices) {
  GW_REQUIRE(devices >= 1, "allocate: expected at least one device, got ", devices);
  // (shares, devices the host has too many or too few, host, device): whole hosts that just fit
  // first.
  std::vector<std::tuple<int, uint32_t, DeviceRef>> candidates;
  for (const auto& [id, host] : hosts_.all()) {
    if (host.lost) continue;
    const uint32_t misfit =
        host.info.devices > devices ? host.info.devices - devices : devices - host.info.devices;
    for (uint32_t d = 0; d < host.info.devices; ++d) {
      const DeviceRef at{id, d};
      candidates.emplace_back(shares_.contains(at) ? shares_[at] : 0, misfit, at);
    }
  }
  GW_REQUIRE(candidates.size() >= devices, "allocate: not so many devices: expected at most ",
             candidates.size(), ", got ", devices);
  std::sort(candidates.begin(), candidates.end());
  candidates.resize(devices);
  const SliceId id(++last_);
  SliceRecord& slice = slices_[id];
  slice.id = id;
  slice.owner = owner;
  for (const auto& candidate : candidates) slice.devices.push_back(std::get<DeviceRef>(candidate));
  // Neighbours in the mesh are neighbours on a host.
  std::sort(slice.devices.begin(), slice.devices.end());
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
