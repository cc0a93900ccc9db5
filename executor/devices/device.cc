#include "executor/devices/device.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {

uint32_t CompiledFunction::add_need(const std::string& axes, int64_t bytes, CollectiveKind kind,
                                    const std::string& at) {
  auto need = std::ranges::find(needs_, axes, &CollectiveNeed::axes);
  if (need == needs_.end()) need = needs_.insert(need, {.axes = axes});
  need->bytes_max = std::max(need->bytes_max, bytes);
  if (!need->kinds.has(kind)) need->at[static_cast<size_t>(kind)] = at;
  need->kinds.add(kind);
  return static_cast<uint32_t>(need - needs_.begin());
}

const std::shared_ptr<const Error>& peer_failed() {
  static const auto kFailed = std::make_shared<const Error>(
      ErrorKind::kUnavailable, "run: another device of the plan failed", Where{},
      "its own error says why");
  return kFailed;
}

std::unique_ptr<Collective> Device::collective(Meetings meetings, const DeviceGroup&) {
  return std::move(meetings.all);
}

std::unique_ptr<DeviceLink> Device::link_to(Device&, uint32_t) { return nullptr; }

int64_t Device::collective_bytes(const DeviceGroup&) const { return 0; }

std::optional<CollectiveRefusal> Device::refuses(const DeviceGroup&) const { return std::nullopt; }

}  // namespace gangway
