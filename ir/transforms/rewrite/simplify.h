// Removes what does not need to run: dead nodes, repeated nodes, and identities (reshape or
// broadcast to the same type, stop_gradient). Nodes behind a `barrier` are never merged with those
// before it: that is what a barrier is for.
#pragma once

#include <map>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// What became of a function or a body, for who explains it.
struct SimplifiedValues {
  const Function* now = nullptr;  // The body, as the simplified function has it; null: itself.
  std::vector<ValueId> values;    // By value before: what stands for it; kNone: it is gone.
};
// By what was simplified; null: the function itself. Of a body of which several were made, one.
using SimplifiedFunctions = std::map<const Function*, SimplifiedValues>;

Function simplify(const Function& function, SimplifiedFunctions* made = nullptr);

// Dead nodes alone; `commit_begin` moves with the node that it names.
Function remove_dead(const Function& function, NodeId& commit_begin);

}  // namespace gangway
