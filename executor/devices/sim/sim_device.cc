#include "executor/devices/sim/sim_device.h"

#include <utility>

#include "executor/devices/sim/sim_device_memory.h"
#include "executor/devices/sim/unread_memory.h"

namespace gangway {
namespace {

std::shared_ptr<MemoryBlocks> blocks_of(const SimHost* host, int64_t bytes) {
  if (host == nullptr || !host->options().timed_only) return nullptr;
  if (host->options().memory != nullptr) return host->options().memory;
  return std::make_shared<UnreadMemory>(bytes);
}

}  // namespace

SimDevice::SimDevice(Reactor& reactor, const std::string& name, int64_t memory_bytes,
                     std::shared_ptr<SimHost> host)
    : Device(std::make_shared<SimDeviceMemory>(name, memory_bytes,
                                               blocks_of(host.get(), memory_bytes)),
             compiler_, stream_),
      host_(host != nullptr ? std::move(host) : std::make_shared<SimHost>()),
      compiler_(par_, host_),
      stream_(reactor, name, host_, par_) {
  host_->add(*this);
}

SimDevice::~SimDevice() {
  stream_.stop();
  host_->remove(*this);
}

}  // namespace gangway
