// Removes what does not need to run: dead nodes, repeated nodes, and identities (reshape or
// broadcast to the same type, stop_gradient). Nodes behind a `barrier` are never merged with those
// before it: that is what a barrier is for.
#pragma once

#include <map>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// The values of a function or a body after simplification, for explanations of it.
struct SimplifiedValues {
  const Function* now = nullptr;  // The body, as the simplified function has it; null: itself.
  // Indexed by value before: the value that replaced it; kNone: it was removed.
  std::vector<ValueId> values;
};
// Keyed by the function before; null: the function itself. A body that became several has an entry
// for one of them.
using SimplifiedFunctions = std::map<const Function*, SimplifiedValues>;

Function simplify(const Function& function, SimplifiedFunctions* made = nullptr);

// Dead nodes alone; `commit_begin` moves with the node that it names.
Function remove_dead(const Function& function, NodeId& commit_begin);

}  // namespace gangway
