// The arguments of a launch over many tensors: plain structs that the host and the kernels share.
// Arrays by tensor are parameters of the kernel, so nothing has to be copied to the card first;
// kMax is how many there is room for (launch_sizes.h).
#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#endif

namespace gangway::cuda {

template <int kMax>
struct ManyPieces {
  int32_t count = 0;         // Number of tensors.
  int32_t first[kMax] = {};  // First piece of each tensor among all; it has at least one.
  int64_t elements[kMax] = {};
};

template <int kMax>
struct ManyNumbers {
  double at[kMax] = {};
};

}  // namespace gangway::cuda
