// Cross-entropy of logits with integer labels, in nats a row, and its gradient.
//
//   loss[row] = log_sum[row] - (logits[row, labels[row]] - largest),
//   log_sum = log(sum(exp(logits - largest))), largest = max(logits) of the row
//
// The largest logit and log_sum are never added: in their sum a number that all logits share, say
// 1e6, would leave no digits for the rest.
//
// logits[rows, classes] f32, bf16 (computed in f32) or f64; labels i32[rows]; loss and log_sum are
// f32, f64 for f64 logits. log_sum may be null; given to the gradient it saves its exponentials. A
// label outside [0, classes) gives a loss and a gradient of NaN: a wrong label must not train.
// Threads: any. In place allowed (dlogits on logits).
// Cost: one pass over the logits; of the loss and the gradient together too.
#pragma once

#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

void cross_entropy(Parallel& par, DType dtype, int64_t rows, int64_t classes, const void* logits,
                   const int32_t* labels, void* loss, void* log_sum);

// dlogits = (softmax(logits) - onehot(labels)) * dloss[row]; log_sum may be null.
void cross_entropy_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                        const void* logits, const int32_t* labels, const void* log_sum,
                        const void* dloss, void* dlogits);

// The bits of both: a row's gradient follows its loss, while the row is in the cache.
void cross_entropy_and_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                            const void* logits, const int32_t* labels, const void* dloss,
                            void* loss, void* log_sum, void* dlogits);

}  // namespace gangway
