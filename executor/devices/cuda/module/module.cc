// The functions that the module exports.
#include <cstdlib>

#include "executor/devices/cuda/module/cuda_driver.h"
#include "executor/devices/cuda/module/kernel_loading.h"
#include "runtime/base/environment.h"

namespace gangway::cuda {
namespace {

GpuInfo info_of(const cudaDeviceProp& found) {
  return {.name = found.name,
          .architecture = static_cast<uint32_t>(found.major * 10 + found.minor),
          .memory_bytes = static_cast<int64_t>(found.totalGlobalMem),
          .multiprocessors = static_cast<uint32_t>(found.multiProcessorCount),
          .shared_bytes_max = static_cast<uint32_t>(found.sharedMemPerBlockOptin)};
}

// Sets no device. Each device that a process sets gets a context of the process, which holds all
// kernels where they are loaded at once; and drivers rely on nobody else setting a device on their
// threads.
FoundGpus find() {
  // To CUDA an empty list of visible devices is not the same as none: it names no card at all.
  if (loads_all_kernels_at_once(cards_of("/dev"), std::getenv("CUDA_VISIBLE_DEVICES")))
    if (!environment_value("CUDA_MODULE_LOADING")) setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess)
    return {{}, cat("the NVIDIA driver does not answer: ", cudaGetErrorString(code))};
  FoundGpus all;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp found;
    if (cudaGetDeviceProperties(&found, device) == cudaSuccess) all.gpus.push_back(info_of(found));
  }
  if (all.gpus.empty()) all.why_none = "the NVIDIA driver sees no GPU";
  return all;
}

Result<std::shared_ptr<Driver>> open(const OpenOptions& options) {
  const FoundGpus found = find();
  if (options.index >= found.gpus.size())
    return to_error({StatusKind::kNoDriver, false, cat("there is no GPU ", options.index)});
  auto driver = std::make_shared<CudaDriver>(options, found.gpus[options.index]);
  if (Status status = driver->start(); !status.ok()) return to_error(status);
  return std::shared_ptr<Driver>(std::move(driver));
}

}  // namespace
}  // namespace gangway::cuda

extern "C" const gangway::cuda::ModuleTable gangway_cuda_module;
const gangway::cuda::ModuleTable gangway_cuda_module = {gangway::cuda::kModuleVersion,
                                                        gangway::cuda::find, gangway::cuda::open};
