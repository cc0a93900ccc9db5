// Facts about a node that all views of a graph show besides its own fields: its cost, and the
// scopes of the user's program that hold it.
//
// Operations and bytes are those of one run of the function on one device; a body counts for each
// time that it runs.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Zero for an op whose row has no cost.
Cost cost_of(const Function& function, NodeId id);
// The sum over all nodes.
Cost cost_of(const Function& function);

// Names, outermost first: {"train_step", "layers.0"}.
std::vector<std::string> scopes_of(const Function& function, NodeId id);

}  // namespace gangway
