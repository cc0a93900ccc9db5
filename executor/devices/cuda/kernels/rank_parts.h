// Number of ranks that one launch of ranks.cu combines.
#pragma once

namespace gangway::cuda {

inline constexpr int kRankPartsMax = 16;
inline constexpr int kRankLevels = 5;  // Levels of the tree over them: 2^4 ranks come to level 4.

}  // namespace gangway::cuda
