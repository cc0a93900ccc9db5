// The sizes of scatter.cu, which the host launches with.
#pragma once

namespace gangway::cuda {

inline constexpr int kScatterTile = 1024;  // Keys that a block sorts at most.
inline constexpr int kScatterPiece = 32;   // Keys whose updates a block sums.

}  // namespace gangway::cuda
