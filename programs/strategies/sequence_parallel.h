// Megatron's sequence parallelism (Korthikanti et al. 2022): beside tensor parallelism, what lies
// between the products of two layers (norms, the residual stream) is cut along the sequence, and
// embeddings of positions with it. Each of tensor parallelism's all-reduces becomes a
// reduce-scatter and an all-gather. What goes into products is kept gathered for the gradients
// of their weights; a rematerialised model keeps it cut and gathers it again, as the paper does.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Over the axis "model"; goes with megatron().
Strategy sequence_parallel();

}  // namespace gangway::programs
