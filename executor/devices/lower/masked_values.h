// Values that hold infinities by intention: constants, as in masks, and what is computed from them.
// A step whose result is not finite is not blamed for them.
//
// What a body is given by one of the nodes that name it counts for all of them.
// Threads: pure. Cost: a few passes over the function and its bodies.
#pragma once

#include <map>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// By ValueId, of the function and of each of its bodies.
using MaskedValues = std::map<const Function*, std::vector<bool>>;
MaskedValues masked_values(const Function& function);

}  // namespace gangway
