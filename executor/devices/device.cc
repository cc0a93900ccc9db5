#include "executor/devices/device.h"

#include <utility>

namespace gangway {

std::unique_ptr<Collective> Device::collective(RendezvousOfGroup rendezvous, const DeviceGroup&) {
  return std::move(rendezvous.all);
}

std::unique_ptr<DeviceLink> Device::link_to(Device&, uint32_t) { return nullptr; }

int64_t Device::collective_bytes(const DeviceGroup&) const { return 0; }

std::optional<CollectiveRefusal> Device::refuses(const DeviceGroup&) const { return std::nullopt; }

}  // namespace gangway
