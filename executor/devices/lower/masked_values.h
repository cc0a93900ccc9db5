// Values that hold infinities on purpose: constants, as in masks, and values computed from them. A
// step is not blamed for a result that is not finite because of them.
//
// An operand that one of the nodes that name a body passes to it counts for all of these nodes.
// Threads: pure. Cost: a few passes over the function and its bodies.
#pragma once

#include <map>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// For the function and each of its bodies a vector that is indexed by ValueId.
using MaskedValues = std::map<const Function*, std::vector<bool>>;
MaskedValues masked_values(const Function& function);

}  // namespace gangway
