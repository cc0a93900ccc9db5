#include "controller/slices/owner_quotas.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway {

// Without a bound on memory no check is set, so that runs do not pay for one.
void OwnerQuotas::set(Quotas quotas) {
  quotas_ = std::move(quotas);
  if (quotas_.bound_memory()) {
    hosts_.limit_memory(
        [this](const std::string& holder, int64_t bytes) { return over_memory(holder, bytes); });
  } else {
    hosts_.limit_memory(nullptr);
  }
  std::map<std::string, uint64_t> of_owners;
  for (const auto& [owner, quota] : quotas_.owners) {
    if (quota.controller_bytes)
      of_owners.emplace(owner, static_cast<uint64_t>(*quota.controller_bytes));
  }
  std::optional<uint64_t> of_others;
  if (quotas_.others.controller_bytes)
    of_others = static_cast<uint64_t>(*quotas_.others.controller_bytes);
  owner_use_.set_memory_max(std::move(of_owners), of_others);
  hosts_.freed().raise();
}

std::optional<OverQuota> OwnerQuotas::over(SessionId id, const SliceShape& shape) const {
  const std::string owner = names_.owner(id);
  const Quota& quota = quotas_.of(owner);
  const int64_t wanted = shape.physical();
  int64_t devices = 0, programs = 0;
  std::string holders;
  for (const auto& [other, name] : names_.all()) {
    const int64_t here = name.owner == owner ? slices_.devices_of(other) : 0;
    if (here == 0) continue;
    devices += here;
    programs += other == id ? 0 : 1;
    holders += cat(holders.empty() ? "" : ", ", name.holder, " holds ", here,
                   here == 1 ? " device" : " devices");
  }
  if (holders.empty()) holders = "nothing";
  if (quota.devices && devices + wanted > *quota.devices)
    return OverQuota{owner, cat(*quota.devices, " devices"), holders, cat(wanted, " more"),
                     wanted > *quota.devices};
  if (quota.programs && programs + 1 > *quota.programs)
    return OverQuota{owner, cat(*quota.programs, " programs with slices"), holders, "one more",
                     *quota.programs == 0};
  return std::nullopt;
}

std::string OwnerQuotas::over_memory(const std::string& holder, int64_t bytes) const {
  const auto asks = std::ranges::find_if(
      names_.all(), [&](const auto& item) { return item.second.holder == holder; });
  if (asks == names_.all().end()) return {};
  const std::string& owner = asks->second.owner;
  const Quota& quota = quotas_.of(owner);
  if (!quota.memory_bytes) return {};
  const auto text = [](int64_t size) { return format_bytes(static_cast<uint64_t>(size)); };
  int64_t held = 0;
  std::string holders;
  for (const auto& [id, name] : names_.all()) {
    const int64_t here = name.owner == owner ? hosts_.held_bytes(name.holder) : 0;
    if (here == 0) continue;
    held += here;
    holders += cat(holders.empty() ? "" : ", ", name.holder, " holds ", text(here));
  }
  if (held + bytes <= *quota.memory_bytes) return {};
  return OverQuota{owner, text(*quota.memory_bytes), holders.empty() ? "nothing" : holders,
                   cat(text(bytes), " more")}
      .text();
}

}  // namespace gangway
