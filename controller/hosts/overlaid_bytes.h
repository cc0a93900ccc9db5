// OverlaidBytes: the memory that plans with overlaid arenas need on each device. Their region there
// is as large as the largest of them.
//
// Threads: the reactor's thread.
// Errors: to remove what was not added is a bug of ours: kBug.
// Cost: O(log plans) for each device; nothing is counted with a run.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "controller/hosts/device_ref.h"

namespace gangway {

class OverlaidBytes {
 public:
  // Bytes of the region: those of the largest plan there.
  int64_t region(DeviceRef at) const;
  // Both return by how much the region grows, or shrinks.
  int64_t add(const std::string& owner, DeviceRef at, int64_t bytes);
  int64_t remove(const std::string& owner, DeviceRef at, int64_t bytes);
  // Bytes that each owner's plans need on all devices together, as if each had memory of its own.
  const std::map<std::string, int64_t>& by_owner() const { return by_owner_; }

 private:
  std::map<DeviceRef, std::multiset<int64_t>> plans_;
  std::map<std::string, int64_t> by_owner_;
};

}  // namespace gangway
