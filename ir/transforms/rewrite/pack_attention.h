// Queries, keys and values that are products of one tensor become one product, and attention reads
// it in place; the gradient of attention reads it too, and writes its three results side by side.
//
//   before   q = x wq, k = x wk, v = x wv;  attention(q, k, v)
//            dq, dk, dv = attention_grad(q, k, v, ...);  x^T dq, x^T dk, x^T dv
//   after    qkv = x [wq wk wv];  packed_attention(qkv)
//            dqkv = packed_attention_grad(qkv, ...);  x^T dqkv, in three parts
//
// A scan that stacked the three for its gradient stacks the one product instead. join_products()
// makes one product of dq wq^T + dk wk^T + dv wv^T, whose operands lie side by side then.
//
// XLA joins products that share an operand too, where they are small (its DotMerger); there the
// parts are copied apart again. packable_attention.h decides which triples are packed.
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
