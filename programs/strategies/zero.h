// ZeRO (Rajbhandari et al. 2020), the third stage also known as FSDP: tensors that data parallelism
// keeps on every device are cut over the devices, and gathered or summed where they are used.
//
//   stage 1   the optimizer's moments
//   stage 2   gradients too: each microbatch's are scattered before they are added
//   stage 3   parameters too: gathered, in the compute type, where they are used
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Adds to a strategy: each parameter is cut along the axes "data", "expert", "expert2", ... that
// the strategy does not use for it already. All of them cut one dimension, which they must cut
// evenly, and if possible one that the strategy leaves whole. If no dimension is right for all
// axes, fewer of them cut it; a parameter that none can cut stays as it was.
Strategy zero(int stage, Strategy of, const Mesh& mesh, const StateTree& parameters);

}  // namespace gangway::programs
