// Tensor parallelism of Megatron-LM (Shoeybi et al. 2019): the first products of attention and of
// the feed-forward layer are cut by columns (attention by heads), the second by rows, so that only
// their results are summed: two all-reduces a layer forward and two backward.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Cuts over the axis "model"; experts are cut like a feed-forward layer.
Strategy megatron();

}  // namespace gangway::programs
