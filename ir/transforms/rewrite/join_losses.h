// A cross_entropy and the cross_entropy_grad of the same logits, labels and logsumexp become one
// cross_entropy_and_grad, which reads and writes each logit once where the two read it twice.
//
// It takes the place of the cross_entropy, so the loss and the values computed from it keep their
// place. Nodes that its dloss needs and that came later move before it: a few scalars in most
// programs. If such a node depends on such a loss, or is one whose position matters (a collective,
// a barrier, a loop), the two ops stay as they are. All other nodes keep their order.
//
// If classes are cut, the gradient consists of other ops, and stays so. If one loss has several
// gradients, the first is joined.
//
// Threads: a pure function.
// Cost: O(nodes * log nodes).
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function; bodies are left as they are.
Function join_losses(const Function& local);

}  // namespace gangway
