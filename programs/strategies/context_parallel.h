// Context parallelism: each device has a part of every sequence. Only attention combines different
// positions; the embeddings of positions are cut like the sequences.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Cuts over the axis "context".
Strategy context_parallel();

}  // namespace gangway::programs
