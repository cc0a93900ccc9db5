#include "tests/emulated/kernels.h"

// kernel_tables.inc lists every source: CMake writes it.
#define GW_TABLE(name) extern "C" const gangway::cuda::HostKernelTable gangway_kernels_##name;
#include "executor/devices/cuda/kernels/kernel_tables.inc"
#undef GW_TABLE

namespace gangway::emulated {

std::vector<const cuda::HostKernelTable*> own_kernels() {
  return {
#define GW_TABLE(name) &gangway_kernels_##name,
#include "executor/devices/cuda/kernels/kernel_tables.inc"
#undef GW_TABLE
  };
}

}  // namespace gangway::emulated
