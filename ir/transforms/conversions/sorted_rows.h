// Rows that lie by expert already are exchanged as they lie.
//
// Before rows of dropless experts go to the devices of their experts, each device sorts its own by
// expert over all its groups, and sorts them back when they return
// (ir/op_table/rows/dropless_experts.h). A group's rows lie by expert as they come; so a device
// with one group would copy each of them to where it is.
//
// The pass recognises this from the expression that computes each row's expert: it is the number of
// ends of experts that the row lies behind, so it never falls from one row to the next. Rows whose
// experts are computed otherwise are sorted as before.
//
// Invariants
//  - Values are the same: rows of no expert lie behind the others, are not sent, and come back as
//    zeros.
// Threads: a pure function.
// Cost: linear in nodes.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function; bodies are left as they are. The nodes that sorted are dead afterwards.
Function leave_sorted_rows(const Function& local);

}  // namespace gangway
