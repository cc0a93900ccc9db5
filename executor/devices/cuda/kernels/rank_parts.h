// How many ranks one launch of ranks.cu combines.
#pragma once

namespace gangway::cuda {

inline constexpr int kRankPartsMax = 16;

}  // namespace gangway::cuda
