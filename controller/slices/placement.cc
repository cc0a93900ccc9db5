#include "controller/slices/placement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace gangway {
namespace {

// The devices that a host has left while a slice is placed, the least shared first.
struct Room {
  const OfferedHost* host = nullptr;
  std::vector<OfferedDevice> devices;
  uint32_t allowed = 0;  // Number of devices that may still be taken.
  uint32_t taken = 0;    // Number of devices taken, from the front of `devices`.

  // Number of devices left that at most `shares` slices lie on, in whole groups.
  uint32_t free(int shares, uint32_t group) const {
    const auto end = std::partition_point(
        devices.begin(), devices.end(), [&](const OfferedDevice& d) { return d.shares <= shares; });
    const auto here = static_cast<uint32_t>(end - devices.begin()) - taken;
    return std::min(here, allowed) / group * group;
  }
};

// One way to place a slice, with the number of other slices on its devices.
struct Choice {
  std::vector<DeviceRef> devices;
  int64_t shares = 0;

  void take(Room& room, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const OfferedDevice& device = room.devices[room.taken++];
      devices.push_back({room.host->id, device.device});
      shares += device.shares;
    }
    room.allowed -= count;
  }
};

using Island = std::vector<const OfferedHost*>;

std::vector<Room> rooms_of(const Island& island, uint32_t per_host_max) {
  std::vector<Room> rooms;
  rooms.reserve(island.size());
  for (const OfferedHost* host : island) {
    Room& room = rooms.emplace_back(Room{.host = host, .devices = host->offered});
    std::stable_sort(room.devices.begin(), room.devices.end(),
                     [](const auto& a, const auto& b) { return a.shares < b.shares; });
    const auto offered = static_cast<uint32_t>(room.devices.size());
    room.allowed = per_host_max == 0 ? offered : std::min(offered, per_host_max);
  }
  return rooms;
}

// Takes `count` devices that at most `shares` slices lie on, of which there are enough: from the
// host that just fits, or, if no host has enough, from the largest and then from one that fits the
// rest.
void take_best_fit(std::vector<Room>& rooms, int shares, uint32_t group, uint32_t count,
                   Choice& choice) {
  while (count > 0) {
    Room* best = nullptr;
    // A host that is large enough first; then the nearest to `count`; then the smaller host.
    std::tuple<bool, int64_t, uint32_t> best_cost;
    for (Room& room : rooms) {
      const uint32_t free = room.free(shares, group);
      if (free == 0) continue;
      // Counts all devices that would be left on the host, not only whole groups.
      const int64_t left = int64_t{room.free(shares, 1)} - count;
      const std::tuple cost{free < count, free < count ? -int64_t{free} : left, room.host->devices};
      if (best != nullptr && best_cost <= cost) continue;
      best = &room;
      best_cost = cost;
    }
    const uint32_t part = std::min(count, best->free(shares, group));
    choice.take(*best, part);
    count -= part;
  }
}

std::set<int> shares_in(const std::vector<Room>& rooms) {
  std::set<int> all;
  for (const Room& room : rooms) {
    for (const OfferedDevice& device : room.devices) all.insert(device.shares);
  }
  return all;
}

// Takes up to `wanted` devices of one island, in whole groups, the least shared first.
void take_least_shared(const Island& island, const PlacementRequest& request, uint32_t group,
                       uint32_t wanted, Choice& choice) {
  std::vector<Room> rooms = rooms_of(island, request.per_host_max);
  for (const int shares : shares_in(rooms)) {
    uint32_t here = 0;
    for (const Room& room : rooms) here += room.free(shares, group);
    const uint32_t part = std::min(wanted, here);
    take_best_fit(rooms, shares, group, part, choice);
    wanted -= part;
    if (wanted == 0) return;
  }
}

uint32_t count_offered(const Island& island, bool unused_only) {
  uint32_t count = 0;
  for (const OfferedHost* host : island) {
    for (const OfferedDevice& device : host->offered)
      count += !unused_only || device.shares == 0 ? 1 : 0;
  }
  return count;
}

int64_t count_shares(const Island& island) {
  int64_t sum = 0;
  for (const OfferedHost* host : island) {
    for (const OfferedDevice& device : host->offered) sum += device.shares;
  }
  return sum;
}

class BestFit final : public PlacementPolicy {
 public:
  std::vector<DeviceRef> place(const std::vector<OfferedHost>& hosts,
                               const PlacementRequest& request) const override {
    std::map<std::string, Island> by_name;
    for (const OfferedHost& host : hosts) by_name[host.island].push_back(&host);
    std::vector<Island> islands;
    for (auto& [name, island] : by_name) islands.push_back(std::move(island));
    std::vector<uint32_t> groups = request.groups;
    groups.push_back(1);
    std::vector<DeviceRef> found = in_one(islands, request, groups);
    if (found.empty() && !request.one_island) found = over_several(islands, request, groups);
    return found;
  }

 private:
  static std::vector<DeviceRef> in_one(const std::vector<Island>& islands,
                                       const PlacementRequest& request,
                                       const std::vector<uint32_t>& groups) {
    // Shares, then the index of the group in `groups`, then unused and all devices of the island.
    using Cost = std::tuple<int64_t, size_t, uint32_t, uint32_t>;
    std::optional<std::pair<Cost, std::vector<DeviceRef>>> best;
    for (const Island& island : islands) {
      for (size_t g = 0; g < groups.size(); ++g) {
        Choice choice;
        take_least_shared(island, request, groups[g], request.devices, choice);
        if (choice.devices.size() < request.devices) continue;
        const Cost cost{choice.shares, g, count_offered(island, true),
                        count_offered(island, false)};
        if (!best || cost < best->first) best = {cost, std::move(choice.devices)};
      }
    }
    return best ? std::move(best->second) : std::vector<DeviceRef>();
  }

  // Takes the largest islands first, so that the slice spans few, and among equal ones the least
  // shared.
  static std::vector<DeviceRef> over_several(std::vector<Island> islands,
                                             const PlacementRequest& request,
                                             const std::vector<uint32_t>& groups) {
    std::stable_sort(islands.begin(), islands.end(), [](const Island& a, const Island& b) {
      const uint32_t left = count_offered(a, false), right = count_offered(b, false);
      return left != right ? left > right : count_shares(a) < count_shares(b);
    });
    for (const uint32_t group : groups) {
      Choice choice;
      for (const Island& island : islands) {
        const auto taken = static_cast<uint32_t>(choice.devices.size());
        take_least_shared(island, request, group, request.devices - taken, choice);
      }
      if (choice.devices.size() == request.devices) return std::move(choice.devices);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<const PlacementPolicy> best_fit_placement() { return std::make_unique<BestFit>(); }

}  // namespace gangway
