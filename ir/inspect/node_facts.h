// What all views of a graph say of a node besides its own fields: what it costs, and in which
// scopes of the user's program it stands.
//
// Operations and bytes are those of one run of the function, as one device would do it: those of a
// body count for each time that it runs.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Nothing for an op whose row has no cost.
Cost cost_of(const Function& function, NodeId id);
// Of all of its nodes.
Cost cost_of(const Function& function);

// Names, outermost first: {"train_step", "layers.0"}.
std::vector<std::string> scopes_of(const Function& function, NodeId id);

}  // namespace gangway
