// OverlaidBytes: what plans whose temporaries lie over one another need of each device. Their
// region there is as large as the largest of them.
//
// Threads: the reactor's thread.
// Errors: taking away what was not added is our own mistake: kBug.
// Cost: O(log plans) for each device; nothing is counted with a run.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "controller/resources/device_ref.h"

namespace gangway {

class OverlaidBytes {
 public:
  // Of the largest plan there.
  int64_t region(DeviceRef at) const;
  // The region grows, or shrinks, by as much as is returned.
  int64_t add(const std::string& owner, DeviceRef at, int64_t bytes);
  int64_t remove(const std::string& owner, DeviceRef at, int64_t bytes);
  // What the plans of each owner need, of all devices together; as if each had its own.
  const std::map<std::string, int64_t>& by_owner() const { return by_owner_; }

 private:
  std::map<DeviceRef, std::multiset<int64_t>> plans_;
  std::map<std::string, int64_t> by_owner_;
};

}  // namespace gangway
