// The sum or the largest of one value from each thread of a block, known to all of them.
//
// Warps shuffle, then the first warp joins their parts; the order is fixed, so the bits are too.
// Blocks are whole warps.
// Cost: two barriers and a shared word for each warp.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

struct Sum {
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {  // NaN wins.
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

template <class Join, class T>
GW_DEVICE T reduce_warp(T value) {
  for (uint32_t mask = kWarpThreads / 2; mask > 0; mask /= 2)
    value = Join()(value, shuffle_xor(value, mask));
  return value;
}

template <class Join, class T>
GW_DEVICE T reduce_block(T value, T identity) {
  GW_SHARED(T, parts, kWarpThreads);
  const uint32_t lane = thread_index().x % kWarpThreads, warp = thread_index().x / kWarpThreads;
  value = reduce_warp<Join>(value);
  sync_block();  // `parts` may still be read by an earlier call.
  if (lane == 0) parts[warp] = value;
  sync_block();
  T all = identity;
  if (lane < block_size().x / kWarpThreads) all = parts[lane];
  return reduce_warp<Join>(all);
}

}  // namespace gangway::cuda
