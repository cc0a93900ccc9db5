// Kernels and modules.
#include "executor/devices/cuda/module/cuda_driver.h"
#include "executor/devices/cuda/module/nvrtc.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

cudaLibrary_t library_of(ModuleHandle handle) { return pointer_of<cudaLibrary_t>(handle); }

}  // namespace

Result<ModuleHandle> CudaDriver::compile(const ModuleSource& source) {
  const auto binary = compile_cubin(source, info_.architecture, options_.kernel_folder);
  if (!binary.ok()) return binary.error();
  enter();
  cudaLibrary_t library = nullptr;
  Status status = done(cudaLibraryLoadData(&library, binary.value().data(), nullptr, nullptr, 0,
                                           nullptr, nullptr, 0),
                       source.name);
  if (!status.ok()) return to_error(status);
  return ModuleHandle{reinterpret_cast<uint64_t>(library)};
}

void CudaDriver::destroy(ModuleHandle module) {
  enter();
  cudaLibraryUnload(library_of(module));
}

Result<KernelHandle> CudaDriver::kernel(ModuleHandle module, std::string_view name) {
  if (!module) {
    const auto found = own_kernels_.find(name);
    if (found == own_kernels_.end())
      return Error(ErrorKind::kInvalid, cat("kernel: there is no \"", name, "\""));
    return KernelHandle{reinterpret_cast<uint64_t>(found->second)};
  }
  enter();
  cudaKernel_t kernel = nullptr;
  Status status =
      done(cudaLibraryGetKernel(&kernel, library_of(module), std::string(name).c_str()), name);
  // Loaded now, as Gangway's own kernels are.
  cudaFuncAttributes attributes;
  if (status.ok()) status = done(cudaFuncGetAttributes(&attributes, kernel), name);
  if (!status.ok()) return to_error(status);
  return KernelHandle{reinterpret_cast<uint64_t>(kernel)};
}

// A kernel must ask for more than 48 KiB of a block. The shared memory that it declares itself
// counts, too.
Status CudaDriver::lend_shared_memory(KernelHandle kernel, std::string_view label) {
  {
    const std::lock_guard lock(mutex_);
    if (wide_kernels_.contains(kernel.bits)) return {};
  }
  const auto* function = pointer_of<const void*>(kernel);
  cudaFuncAttributes attributes;
  if (Status status = done(cudaFuncGetAttributes(&attributes, function), label); !status.ok())
    return status;
  const int left =
      static_cast<int>(info_.shared_bytes_max) - static_cast<int>(attributes.sharedSizeBytes);
  Status status = done(
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, left), label);
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  wide_kernels_.insert(kernel.bits);
  return {};
}

Status CudaDriver::launch(At at, const Launch& launch) {
  enter();
  const auto* function = pointer_of<const void*>(launch.kernel);
  if (launch.shared_bytes > 0) {
    if (Status status = lend_shared_memory(launch.kernel, at.label); !status.ok()) return status;
  }
  const dim3 grid(launch.grid.x, launch.grid.y, launch.grid.z);
  const dim3 block(launch.block.x, launch.block.y, launch.block.z);
  // The runtime only reads what the arguments point to.
  auto** arguments = const_cast<void**>(launch.arguments.data());
  return done(
      cudaLaunchKernel(function, grid, block, arguments, launch.shared_bytes, stream_of(at.stream)),
      at.label);
}

}  // namespace gangway::cuda
