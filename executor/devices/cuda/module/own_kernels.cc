#include "executor/devices/cuda/module/own_kernels.h"

#include "executor/devices/cuda/kernels/card_kernel.h"

// kernel_tables.inc lists every source: CMake writes it.
#define GW_TABLE(name) extern "C" const gangway::cuda::CardKernelTable gangway_kernels_##name;
#include "executor/devices/cuda/kernels/kernel_tables.inc"
#undef GW_TABLE

namespace gangway::cuda {

std::map<std::string, const void*, std::less<>> own_kernels() {
  std::map<std::string, const void*, std::less<>> all;
  const auto add = [&](const CardKernelTable& table) {
    for (size_t i = 0; i < table.count; ++i) all[table.kernels[i].name] = table.kernels[i].function;
  };
#define GW_TABLE(name) add(gangway_kernels_##name);
#include "executor/devices/cuda/kernels/kernel_tables.inc"
#undef GW_TABLE
  return all;
}

}  // namespace gangway::cuda
