// Queries, keys and values that one tensor gives become one product, which attention reads as it
// lies; so does the gradient of attention, and what it gives lies side by side too.
//
//   before   q = x wq, k = x wk, v = x wv;  attention(q, k, v)
//            dq, dk, dv = attention_grad(q, k, v, ...);  x^T dq, x^T dk, x^T dv
//   after    qkv = x [wq wk wv];  packed_attention(qkv)
//            dqkv = packed_attention_grad(qkv, ...);  x^T dqkv, in three parts
//
// What a scan stacked of the three for its gradient it stacks of the one. join_products() makes one
// product of dq wq^T + dk wk^T + dv wv^T, whose operands lie side by side then.
//
// XLA joins products that share an operand too, where they are small (its DotMerger); there the
// parts are copied apart again. Which triples are packed packable_attention.h says.
//
// Invariants
//  - q, k, v and what attention gives have the same bits where a product's do not depend on how
//    many columns it has. The cotangent of x is summed in another order.
// Threads: a pure function.
// Cost: O(nodes * log nodes).
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function that was simplified, so that equal values are one, and treats the bodies
// in it too.
Function pack_attention(const Function& local);

}  // namespace gangway
