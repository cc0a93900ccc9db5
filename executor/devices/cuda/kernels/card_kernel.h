// The kernels of one source, as nvcc compiled them and as cudaLaunchKernel() takes them.
#pragma once

#include <cstddef>

namespace gangway::cuda {

struct CardKernel {
  const char* name;
  const void* function;
};
struct CardKernelTable {
  const CardKernel* kernels;
  size_t count;
};

}  // namespace gangway::cuda
