// The arguments of the attention kernels: a plain struct that the host and the kernels share.
//
// A block holds `tile` queries, and as many keys at a time: tile * odd_pitch(head_dim) numbers of
// every tensor that it reads or sums, tile * odd_pitch(tile) of every table of scores, and
// kNumbersOfQuery for each query, all in dynamic shared memory. Strides count elements. Blocks of
// bf16 on the matrix unit take tiles of kMatrixTile instead, and heads of at most kMatrixDimMax
// elements, a multiple of 8, padded to the next multiple of kMatrixDimStep.
#pragma once

#include "executor/devices/cuda/kernels/tiled/both_sides.h"

namespace gangway::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionTileMax = 32;  // Each key has a lane.
inline constexpr int kNumbersOfQuery = 3;     // For the gradient; the forward pass has two.
inline constexpr int kMatrixTile = 64, kMatrixDimStep = 32, kMatrixDimMax = 128;

struct AttentionSize {
  int64_t heads = 0, seq_q = 0, seq_k = 0, head_dim = 0;
  int64_t stride_q = 0, stride_k = 0, stride_v = 0, stride_out = 0;
  int64_t tile = 0;
  int64_t lead = 0;  // Causal attention: query i sees keys j <= i + lead.
  double scale = 0;
  bool causal = false;
  // Where queries and keys begin, and with it `lead`, is known at run time.
  bool has_starts = false;
};

GW_BOTH int64_t odd_pitch(int64_t columns) { return columns | 1; }

}  // namespace gangway::cuda
