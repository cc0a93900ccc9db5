// PlacementPolicy: chooses a slice's devices among those that it may lie on.
//
// SliceTable offers hosts that are there, with the devices that the slice's constraints allow, and
// a PlacementPolicy chooses. A new policy is another class like best_fit_placement()'s.
//
// The default policy, best_fit_placement(), wants in this order:
// 1. few islands: one wherever one has enough devices,
// 2. devices that few slices lie on,
// 3. groups of neighbours in the mesh on one host each, the largest groups that it can,
// 4. the island that has fewest unused devices to spare, and in it the hosts that just fit: a host
// is broken into only where no broken one will do. The rest thereby stays in large pieces, as with
// best fit in allocators of memory.
//
// Threads: a policy is immutable.
// Errors: an empty result if the request does not fit the offer; none is thrown.
// Cost: O(groups x shares x hosts log hosts + devices).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/hosts/device_ref.h"

namespace gangway {

struct OfferedDevice {
  uint32_t device = 0;
  int shares = 0;  // Slices that lie on it.
};

struct OfferedHost {
  HostId id;
  std::string island;
  uint32_t devices = 1;  // All its devices, offered or not.
  std::vector<OfferedDevice> offered;
};

struct PlacementRequest {
  uint32_t devices = 1;
  // Sizes of the groups of neighbours to keep on one host, largest first; each divides `devices`.
  std::vector<uint32_t> groups;
  bool one_island = false;
  uint32_t per_host_max = 0;  // 0: as many as a host has.
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  // Returns `request.devices` devices, each once, in any order. Empty: they do not fit.
  virtual std::vector<DeviceRef> place(const std::vector<OfferedHost>& hosts,
                                       const PlacementRequest& request) const = 0;
};

std::unique_ptr<const PlacementPolicy> best_fit_placement();

}  // namespace gangway
