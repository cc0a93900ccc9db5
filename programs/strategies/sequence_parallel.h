// Megatron's sequence parallelism (Korthikanti et al. 2022), used beside tensor parallelism. The
// values between the products of two layers (norms, the residual stream) are cut along the
// sequence, and the embeddings of positions with them. Each of tensor parallelism's all-reduces
// becomes a reduce-scatter and an all-gather. Operands of products are kept gathered for the
// gradients of their weights; a rematerialised model keeps them cut and gathers them again, as the
// paper does.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Cuts over the axis "model"; goes with megatron().
Strategy sequence_parallel();

}  // namespace gangway::programs
