// Removes what does not need to run: dead nodes, repeated nodes, and identities (reshape or
// broadcast to the same type, stop_gradient). Nodes behind a `barrier` are never merged with those
// before it: that is what a barrier is for.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

Function simplify(const Function& function);

// Dead nodes alone; `commit_begin` moves with the node that it names.
Function remove_dead(const Function& function, NodeId& commit_begin);

}  // namespace gangway
