// CpuDevice: a device on CPU cores.
//
// Threads, ownership: see device.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "executor/devices/cpu/cpu_compiler.h"
#include "executor/devices/cpu/cpu_stream.h"
#include "executor/devices/device.h"
#include "executor/kernels/parallel.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/trusted_files.h"

namespace gangway {

struct CpuDeviceOptions {
  std::string name;
  int64_t memory_bytes = 0;
  int threads = 1;  // Threads of the kernels, including the device's own.
  SpinPolicy wait = SpinPolicy::park();
  std::shared_ptr<const TrustedFiles> trusted;  // For users' kernels; null: any file may be loaded.
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : Device(std::make_shared<DeviceMemory>(options.name, options.memory_bytes), compiler_,
               stream_),
        par_(options.threads),
        compiler_(par_, options.trusted),
        stream_(options.name, par_, options.wait) {}

 private:
  Parallel par_;
  CpuCompiler compiler_;
  CpuStream stream_;  // Last: its thread uses everything above.
};

}  // namespace gangway
