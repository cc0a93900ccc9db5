// A launch over many tensors: each block takes a piece of one.
//
// The multi-tensor kernels of Apex and PyTorch do the same, but take several launches for a model,
// since the parameters of a kernel were 4 KiB then.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"
#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/kernels/many/many_pieces.h"

namespace gangway::cuda {

// The tensor that has a piece.
template <int kMax>
GW_DEVICE int32_t tensor_of(const ManyPieces<kMax>& all, int32_t piece) {
  if constexpr (kMax == 1) return 0;
  int32_t low = 0, high = all.count;
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    if (all.first[middle] <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace gangway::cuda
