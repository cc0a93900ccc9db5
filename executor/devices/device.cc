#include "executor/devices/device.h"

#include <utility>

#include "runtime/base/error.h"

namespace gangway {

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
