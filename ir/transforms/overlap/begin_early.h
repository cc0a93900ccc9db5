// Moves the begin of collectives forward, so that other steps are computed while they run (devices
// wait for a collective where its result is read: ir/transforms/memory/join_plan.h).
//
//  - A sum begins as soon as its operands are there. The gradients of a layer are therefore
//    scattered one by one while the rest of the layer is differentiated, which frees their whole
//    form.
//  - A gather of a stored tensor (a parameter that only moves and conversions lead to the gather
//    from) begins kGathersAhead rounds of such gathers earlier. A round is the gathers between
//    which nothing is computed, such as those of a layer's weights. No gather begins before a loop
//    that it stands behind, lest a layer lie whole all through the loop, except one of at most
//    kSmallGatherBytes, such as the weights of norms: DeepSpeed never stores these in parts
//    (Rajbhandari et al., ZeRO-Infinity, 2021; stage3_param_persistence_threshold). No gather
//    begins before the result of an earlier gather of the same tensor has been read.
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
