// SimDeviceMemory: the memory of a simulated device.
//
// Threads: the reactor's. Errors: those of device_memory.h.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "executor/store/device_memory.h"

namespace gangway {

class SimDeviceMemory final : public DeviceMemory {
 public:
  // `blocks`: where nothing reads the buffers (unread_memory.h); null: the host's memory.
  SimDeviceMemory(std::string device, int64_t budget_bytes,
                  const std::shared_ptr<MemoryBlocks>& blocks)
      : DeviceMemory(std::move(device), budget_bytes, blocks), has_values_(blocks == nullptr) {}

  bool has_values() const override { return has_values_; }
  // Zeros, so that reports on values that were never computed are the same every time.
  HostMemory host_memory(int64_t bytes) override {
    HostMemory memory = DeviceMemory::host_memory(bytes);
    if (bytes > 0) std::memset(memory.get(), 0, static_cast<size_t>(bytes));
    return memory;
  }

 private:
  const bool has_values_;
};

}  // namespace gangway
