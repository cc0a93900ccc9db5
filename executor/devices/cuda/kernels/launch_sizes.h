// Sizes that a kernel and the host that launches it agree on.
#pragma once

namespace gangway::cuda {

inline constexpr int kJoinThreadsMax = 1024;  // reduce.cu: of a block that joins pieces.
inline constexpr int kHeldThreadsMax = 512;   // norm_held.cu: more would have too few registers.
inline constexpr int kScatterTile = 1024;     // scatter.cu: keys that a block sorts at most.
inline constexpr int kScatterPiece = 32;      // scatter.cu: keys whose updates a block sums.

}  // namespace gangway::cuda
