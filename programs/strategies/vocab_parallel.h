// Vocabulary parallelism (Shoeybi et al. 2019, section 3): each device has the embeddings of a part
// of the vocabulary, and its logits.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Cuts over the axis "model".
Strategy vocab_parallel();

}  // namespace gangway::programs
