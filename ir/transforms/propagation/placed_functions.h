// Functions of the global view with what propagation found for them: every value with its sharding,
// numbered as why() (ir/explain/why.h) names values.
//
// Threads: pure functions.
#pragma once

#include <map>

#include "ir/graph/function.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway {

// How the function and each body in it, at any depth, is placed. Points into both arguments.
std::map<const Function*, const FunctionShardings*> placed_functions(
    const Function& function, const Propagation& propagation);

// The function with the shardings of its values, those of its bodies too: in the text form
// (ir/text/text.h) each type is followed by them.
Function with_shardings(const Function& function, const Propagation& propagation);

}  // namespace gangway
