#include "tests/emulated/kernels.h"

extern "C" const gangway::cuda::HostKernelTable gangway_kernels_apply;
extern "C" const gangway::cuda::HostKernelTable gangway_kernels_elementwise;
extern "C" const gangway::cuda::HostKernelTable gangway_kernels_move;
extern "C" const gangway::cuda::HostKernelTable gangway_kernels_random;
extern "C" const gangway::cuda::HostKernelTable gangway_kernels_reduce;
extern "C" const gangway::cuda::HostKernelTable gangway_kernels_rows;

namespace gangway::emulated {

std::vector<const cuda::HostKernelTable*> own_kernels() {
  return {&gangway_kernels_apply,  &gangway_kernels_elementwise, &gangway_kernels_move,
          &gangway_kernels_random, &gangway_kernels_reduce,      &gangway_kernels_rows};
}

}  // namespace gangway::emulated
