// Which lowering takes an op: the same families on every device, one file each.
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "ir/op_table/op.h"

namespace gangway {

enum class KernelFamily : uint8_t {
  kStep,  // No kernel: `timed` and the collectives are steps of their own.
  kElementwise,
  kFusion,
  kFill,    // constant, iota
  kCopy,    // reshape, barrier, stop_gradient
  kMove,    // broadcast, transpose, slice, concat, pad, shard_slice
  kWindow,  // dynamic_slice, dynamic_update
  kReduce,  // sums, extremes, argmax, cumsum, sum_squares
  kDot,
  kIndex,  // take, scatter_add, top_k, sort
  kRandom,
  kSoftmax,  // and cross-entropy, with their gradients
  kNorm,
  kAttention,
  kMoe,  // grouped products, routing, dispatch, combine
  kAdamw,
  kCustom,  // A user's kernel, for memory of the host.
};

KernelFamily kernel_family(Op op);

}  // namespace gangway
