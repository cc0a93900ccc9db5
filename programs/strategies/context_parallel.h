// Context parallelism: each device has a part of every sequence. What meets other positions is
// attention alone; embeddings of positions are cut as they are.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Over the axis "context".
Strategy context_parallel();

}  // namespace gangway::programs
