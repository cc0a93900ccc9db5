#include "controller/resources/slices.h"

#include <algorithm>
#include <utility>

#include "protocol/slice_shape.h"

namespace gangway {

// A device that a slice may take. The least is taken first: least shared, then of a whole host that
// just fits.
struct SliceTable::Candidate {
  int shares = 0;
  uint32_t misfit = 0;  // Devices that its host has too many or too few.
  DeviceRef at;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::map<std::string, std::vector<SliceTable::Candidate>> SliceTable::candidates(
    uint32_t devices) const {
  std::map<std::string, std::vector<Candidate>> by_island;
  for (const auto& [id, host] : hosts_.all()) {
    if (host.lost) continue;
    const uint32_t misfit =
        host.info.devices > devices ? host.info.devices - devices : devices - host.info.devices;
    std::vector<Candidate>& here = by_island[host.info.island];
    for (uint32_t d = 0; d < host.info.devices; ++d) {
      const auto shared = shares_.find({id, d});
      here.push_back({shared == shares_.end() ? 0 : shared->second, misfit, {id, d}});
    }
  }
  for (auto& [island, here] : by_island) std::sort(here.begin(), here.end());
  return by_island;
}

// The first `devices` of one island where one has so many: of the least shared, and of those the
// one that keeps fewest to spare. Else the islands that have most, the least shared first.
std::vector<SliceTable::Candidate> SliceTable::choose(const SliceShape& shape) const {
  const uint32_t devices = shape.devices / shape.ranks_per_device;
  std::map<std::string, std::vector<Candidate>> by_island = candidates(devices);
  std::vector<Candidate>* best = nullptr;
  std::pair<int, size_t> best_cost;
  std::vector<std::vector<Candidate>*> largest_first;
  for (auto& [island, here] : by_island) {
    largest_first.push_back(&here);
    if (here.size() < devices) continue;
    std::pair<int, size_t> cost{0, here.size()};
    for (uint32_t i = 0; i < devices; ++i) cost.first += here[i].shares;
    if (best == nullptr || cost < best_cost) {
      best = &here;
      best_cost = cost;
    }
  }
  std::vector<Candidate> chosen;
  if (best != nullptr) largest_first = {best};
  const auto shares = [](const std::vector<Candidate>& island) {
    int sum = 0;
    for (const Candidate& candidate : island) sum += candidate.shares;
    return sum;
  };
  std::stable_sort(largest_first.begin(), largest_first.end(), [&](const auto* a, const auto* b) {
    return a->size() != b->size() ? a->size() > b->size() : shares(*a) < shares(*b);
  });
  for (const std::vector<Candidate>* here : largest_first) {
    const size_t missing = devices - chosen.size();
    chosen.insert(chosen.end(), here->begin(), here->begin() + std::min(missing, here->size()));
  }
  GW_REQUIRE(chosen.size() == devices, "allocate: not so many devices: expected at most ",
             chosen.size() * shape.ranks_per_device, ", got ", shape.devices,
             shape.ranks_per_device == 1
                 ? std::string()
                 : cat(" with ranks_per_device = ", shape.ranks_per_device));
  return chosen;
}

SliceRecord& SliceTable::allocate(SessionId owner, const SliceShape& shape) {
  require_ranks_divide(shape.devices, shape.ranks_per_device);
  const std::vector<Candidate> chosen = choose(shape);
  const SliceId id(++last_);
  SliceRecord& slice = slices_[id];
  slice.id = id;
  slice.owner = owner;
  slice.ranks_per_device = shape.ranks_per_device;
  for (const Candidate& candidate : chosen) slice.devices.push_back(candidate.at);
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
