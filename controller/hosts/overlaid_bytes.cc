#include "controller/hosts/overlaid_bytes.h"

#include "runtime/base/error.h"

namespace gangway {

int64_t OverlaidBytes::region(DeviceRef at) const {
  const auto plans = plans_.find(at);
  return plans == plans_.end() ? 0 : *plans->second.rbegin();
}

int64_t OverlaidBytes::add(const std::string& owner, DeviceRef at, int64_t bytes) {
  const int64_t before = region(at);
  plans_[at].insert(bytes);
  by_owner_[owner] += bytes;
  return region(at) - before;
}

int64_t OverlaidBytes::remove(const std::string& owner, DeviceRef at, int64_t bytes) {
  const int64_t before = region(at);
  const auto plans = plans_.find(at);
  GW_ASSERT(plans != plans_.end() && plans->second.contains(bytes));
  plans->second.erase(plans->second.find(bytes));
  if (plans->second.empty()) plans_.erase(plans);
  const auto held = by_owner_.find(owner);
  held->second -= bytes;
  if (held->second == 0) by_owner_.erase(held);
  return before - region(at);
}

}  // namespace gangway
