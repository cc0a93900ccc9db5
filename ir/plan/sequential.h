// Nodes of a plan that are dispatched sequentially (dispatch.h), and why: all nodes, if the program
// was compiled so; else the nodes whose needs depend on data, since a host learns what it must do
// for them only when they fire. A plan has none of the latter while its check refuses late nodes.
//
// Threads: pure functions. Cost: O(1) a node; the reason O(nodes).
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace gangway {

bool is_sequential(const Plan& plan, const PlanNode& node);
bool any_sequential(const Plan& plan);

// In words for the user, with the line of the first such node; empty: none is.
std::string why_sequential(const Plan& plan);

}  // namespace gangway
