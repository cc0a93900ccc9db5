// ZeRO (Rajbhandari et al. 2020), the third stage also known as FSDP: what data parallelism keeps
// on every device is cut over them, and gathered or summed where it is used.
//
//   stage 1   the optimizer's moments
//   stage 2   gradients too: each microbatch's are scattered before they are added
//   stage 3   parameters too: gathered, in the type that is computed with, where they are used
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Adds to a strategy: each parameter is cut along the axes "data" and "expert" where the strategy
// does not use them for it already; in the first dimension that it can be cut evenly along, one
// that the strategy leaves whole if there is any. What has none stays as it was.
Strategy zero(int stage, Strategy of, const Mesh& mesh, const StateTree& parameters);

}  // namespace gangway::programs
