// Eliminates redundant exchanges: rows of dropless experts stay on the devices of their experts
// from the first product to the last. They go there once and come back once in the forward pass,
// and so do their cotangents in the backward pass, as rows with a capacity do in GShard (Lepikhin
// et al. 2020, section 3.3).
//
//   as lowered   there up back | there gate back | gelu, mul | there down back
//   after        there up, gate, gelu, mul, down back
//
// Each product of experts is lowered by itself, with an exchange that sends rows to their experts
// before it and one that sends them back after it (ir/op_table/rows/dropless_experts.h). Sending
// rows that have just come back is the identity, and an op on each element by itself can run on the
// experts' devices as well: on the rows that lie there and on the room behind them, which nothing
// reads. Rows that are needed on their own devices then come back once, as the result of the last
// op.
//
// If the forward and the backward scan over layers sort rows alike, the rows that the backward scan
// needs on the experts' devices are stacked where the forward scan has them: rows that the forward
// scan sent are not sent again. Such a stack has room for `bound` times the rows of a device in
// each layer; rematerialised layers keep none.
//
// Invariants
//  - Values are the same in every bit: rows move, and nothing is computed in another order.
// Threads: a pure function.
// Cost: O(nodes * log), and nothing where no rows are exchanged; nodes of a body count once more
// for each pair of loops of which one runs the body and the other passes rows to it.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function that was simplified, so that equal values are one, and treats the bodies
// in it too.
Function keep_rows_there(const Function& local);

}  // namespace gangway
