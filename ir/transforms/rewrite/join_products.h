// Sums of products become one product: a1 b1 + a2 b2 is [a1 a2] [b1; b2], where the operands are
// joined along the dimension that is summed over.
//
// A device that has few columns of each weight, and all rows of the activations (tensor
// parallelism), makes large results of small operands: joining the operands moves less than writing
// each product and adding them up. Products are joined only if it does: for the cotangent of the
// tensor that several products read, as those of a gated feed-forward layer do. A sum of products
// of several shapes becomes a sum of one product for each shape; more than kInputsMax products
// become several.
//
// Threads: a pure function.
// Cost: O(nodes * log nodes).
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function; bodies are left as they are.
Function join_products(const Function& local);

}  // namespace gangway
