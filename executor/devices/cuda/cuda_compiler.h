// CudaCompiler: compiles functions for a card; all devices of the card run them.
//
// Threads, errors: see device_compiler.h. Ownership: shares the card; the device outlives it.
#pragma once

#include <memory>
#include <utility>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/device_compiler.h"

namespace gangway {

class CudaStream;

class CudaCompiler final : public DeviceCompiler {
 public:
  CudaCompiler(std::shared_ptr<cuda::Gpu> gpu, CudaStream& stream)
      : gpu_(std::move(gpu)), stream_(stream) {}

  std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) override;
  bool blocks() const override { return true; }
  const void* family() const override { return gpu_.get(); }
  // The device's thread drops graphs of functions that are gone.
  void trim() override;

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
  CudaStream& stream_;
};

}  // namespace gangway
