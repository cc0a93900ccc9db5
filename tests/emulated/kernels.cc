#include "tests/emulated/kernels.h"

#define GW_TABLE(name) extern "C" const gangway::cuda::HostKernelTable gangway_kernels_##name
GW_TABLE(apply);
GW_TABLE(elementwise);
GW_TABLE(index);
GW_TABLE(moe);
GW_TABLE(move);
GW_TABLE(norm);
GW_TABLE(optimizer);
GW_TABLE(random);
GW_TABLE(reduce);
GW_TABLE(softmax);

namespace gangway::emulated {

std::vector<const cuda::HostKernelTable*> own_kernels() {
  return {&gangway_kernels_apply,  &gangway_kernels_elementwise, &gangway_kernels_index,
          &gangway_kernels_moe,    &gangway_kernels_move,        &gangway_kernels_norm,
          &gangway_kernels_random, &gangway_kernels_optimizer,   &gangway_kernels_reduce,
          &gangway_kernels_softmax};
}

}  // namespace gangway::emulated
