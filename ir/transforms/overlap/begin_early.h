// Moves the begin of collectives forward, so that other steps are computed while they run (devices
// wait for a collective where its result is read: ir/transforms/memory/join_plan.h).
//
//  - A sum begins as soon as its operands are there. A layer's gradients are so scattered one by
//    one while the rest of the layer is differentiated, and their whole form is given back.
//  - What is gathered of stored tensors (parameters that only moves and conversions lead to the
//    gather from) begins kGathersAhead rounds of such gathers earlier; a round are those between
//    which nothing is computed, such as the weights of a layer. None begins before a loop that it
//    stands behind, lest a layer lie whole all through the loop; but what has kSmallGatherBytes at
//    most, as weights of norms have: DeepSpeed never stores these in parts (Rajbhandari et al.,
//    ZeRO-Infinity, 2021; stage3_param_persistence_threshold). And none begins before what was
//    gathered of the same tensor has been read.
//
// prefetch_gathers() does the same over the iterations of a loop.
//
// Everything else keeps its order. Nodes that move and convert an operand move with its collective.
// Threads: a pure function.
// Cost: O(nodes * log nodes).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/function.h"

namespace gangway {

inline constexpr size_t kGathersAhead = 4;
inline constexpr int64_t kSmallGatherBytes = int64_t{64} << 10;

// Takes a local function; its bodies are as they were.
Function begin_collectives_early(const Function& local);

}  // namespace gangway
