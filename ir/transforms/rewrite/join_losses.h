// A cross_entropy and the cross_entropy_grad of the same logits, labels and logsumexp become one
// cross_entropy_and_grad, which reads and writes each logit once where the two read it twice.
//
// It stands where the cross_entropy stood, so the loss and what is computed of it keep their place.
// What its dloss needs and came later goes before it: a few scalars in most programs. Where that
// depends on such a loss, or on a node whose place says something (a collective, a barrier, a
// loop), the two stay as they are. All other nodes keep their order.
//
// A gradient of classes that are cut is other ops, and stays so. Of several gradients of one loss
// the first is joined.
//
// Threads: a pure function.
// Cost: O(nodes * log nodes).
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function; bodies are left as they are.
Function join_losses(const Function& local);

}  // namespace gangway
