// CudaDevice: a GPU, or a part of one, behind the driver's table.
//
// Devices of one card meet by copies, those of several by the driver's communicators
// (cuda/collectives).
//
// Threads: see device.h. Ownership: the Gpu is shared by the devices of one card.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "executor/devices/cuda/cuda_compiler.h"
#include "executor/devices/cuda/cuda_stream.h"
#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/device.h"

namespace gangway {

struct CudaDeviceOptions {
  std::string name;
  int64_t memory_bytes = 0;
  std::shared_ptr<cuda::Gpu> gpu;
};

class CudaDevice final : public Device {
 public:
  // Throws what the driver says.
  explicit CudaDevice(const CudaDeviceOptions& options);

  CudaStream& stream() { return stream_; }
  std::unique_ptr<Collective> collective(RendezvousOfGroup rendezvous,
                                         const DeviceGroup& group) override;
  int64_t collective_bytes(const DeviceGroup& group) const override;
  std::optional<CollectiveRefusal> refuses(const DeviceGroup& group) const override;
  std::unique_ptr<DeviceLink> link_to(Device& receiver, uint32_t slots) override;

 private:
  CudaCompiler compiler_;
  CudaStream stream_;  // Last: its thread uses everything above.
};

}  // namespace gangway
