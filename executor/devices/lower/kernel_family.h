// The lowering that takes an op: the same families on every device, one file each.
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "ir/op_table/op.h"

namespace gangway {

enum class KernelFamily : uint8_t {
  kStep,  // No kernel: `timed` and collectives are steps of their own.
  kElementwise,
  kFusion,
  kFill,    // constant, iota, table
  kCopy,    // reshape, barrier, stop_gradient
  kMove,    // broadcast, transpose, slice, concat, pad
  kWindow,  // dynamic_slice, dynamic_update
  kMesh,    // Depends on the device's place in the mesh: shard_slice, axis_index, keep_first.
  kReduce,  // sums, extremes, argmax, cumsum, sum_squares
  kDot,
  kIndex,  // take, scatter_add, top_k, sort
  kRandom,
  kSoftmax,  // and cross-entropy, with their gradients
  kNorm,
  kAttention,
  kMoe,  // grouped products, routing, dispatch, combine
  kAdamw,
  kBody,    // scan, call: their bodies are steps; the kernel is for a node that runs no body.
  kCustom,  // A user's kernel, for host memory.
};

KernelFamily kernel_family(Op op);

}  // namespace gangway
