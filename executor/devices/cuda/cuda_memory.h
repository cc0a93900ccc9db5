// CudaMemory: the part of a card's memory that one device may use, and pinned memory of the host.
//
// Threads: any, host_access() as device_memory.h says. Ownership: shares the card.
// Errors: the driver's, with the name of the device.
#pragma once

#include <memory>
#include <string>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/store/device_memory.h"

namespace gangway {

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(std::string device, int64_t budget_bytes, std::shared_ptr<cuda::Gpu> gpu)
      : DeviceMemory(std::move(device), budget_bytes, gpu), gpu_(std::move(gpu)) {}

  HostMemory host_memory(int64_t bytes) override { return gpu_->host_memory(bytes, device()); }
  std::shared_ptr<void> pin(void* data, int64_t bytes) override { return gpu_->pin(data, bytes); }
  void host_access(HostAccess kind, const void* data, int64_t bytes) override {
    const bool reads = kind == HostAccess::kRead;
    gpu_->driver().host_access(
        {data, bytes, reads ? cuda::AccessKind::kRead : cuda::AccessKind::kWrite}, "host");
  }

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
};

}  // namespace gangway
