// How many ranks one launch of ranks.cu combines.
#pragma once

namespace gangway::cuda {

inline constexpr int kRankPartsMax = 16;
inline constexpr int kRankLevels = 5;  // Of the tree over them: 2^4 ranks come to level 4.

}  // namespace gangway::cuda
