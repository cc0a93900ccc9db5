// Sizes that a kernel and the host that launches it agree on.
#pragma once

namespace gangway::cuda {

inline constexpr int kJoinThreadsMax = 1024;  // reduce.cu: of a block that joins pieces.
inline constexpr int kHeldThreadsMax = 512;   // norm_held.cu: more would have too few registers.
inline constexpr int kLossThreads = 512;      // softmax.cu: of a block with a long row of logits.
inline constexpr int kRowSumsBytes = 512;     // softmax.cu: shared memory that sums take at most.
inline constexpr int kScatterTile = 1024;     // scatter.cu: keys that a block sorts at most.
inline constexpr int kScatterPiece = 32;      // scatter.cu: keys whose updates a block sums.
// many_pieces.h: how many tensors there is room for in a launch. A card takes 32,764 bytes of
// parameters and copies them with each launch, so a few tensors have kernels of their own.
inline constexpr int kManyTensors = 400, kFewTensors = 32;
inline constexpr int kManyThreads = 256;
inline constexpr int kAdamwPiece = 8192;   // optimizer.cu: elements that a block takes.
inline constexpr int kReducePiece = 8192;  // reduce.cu: elements of a row that a block takes.

}  // namespace gangway::cuda
