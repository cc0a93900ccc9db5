// Rows of dropless experts stay on the devices of their experts from the first product to the last:
// they go there once and come back once in the forward pass, and so do their cotangents in the
// backward pass, as GShard (Lepikhin et al. 2020, section 3.3) has it of rows with a capacity.
//
//   as lowered   there up back | there gate back | gelu, mul | there down back
//   after        there up, gate, gelu, mul, down back
//
// Each product of experts is lowered for itself, rows to their experts and back around it
// (ir/op_table/rows/dropless_experts.h). Going there with what has just come back is the identity,
// and what is done with each element by itself can be done there as well: on the rows that lie
// there and on the room behind them, which nothing reads. What is still wanted back then comes back
// once, as the result of all this.
//
// What the backward scan over layers wants there, of what the forward one has there, is stacked as
// it lies there, where both sort rows alike: rows that were sent forward are not sent again. Such a
// stack has room for `bound` times the rows of a device in each layer; rematerialised layers keep
// none.
//
// Invariants
//  - Values are the same in every bit: rows move, and nothing is computed in another order.
// Threads: a pure function.
// Cost: O(nodes * log) and nothing where no rows are exchanged; nodes of a body count once more for
// each loop over it to which rows are handed over, for each loop that hands over.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function that was simplified, so that equal values are one, and treats the bodies
// in it too.
Function keep_rows_there(const Function& local);

}  // namespace gangway
