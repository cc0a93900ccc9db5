// Softmax over the last axis and its gradient; f32, bf16 (computed in f32), f64.
//
// y[rows, cols] = exp(x - max) / sum; a row that is all -inf gives NaN, as its definition says.
// In place allowed (y on x; dx on y or dy).
// Threads: any.
// Cost: one pass over memory.
#pragma once

#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

void softmax(Parallel& par, DType dtype, int64_t rows, int64_t cols, const void* x, void* y);

// dx = y * (dy - sum(y * dy)), from the softmax's result y.
void softmax_grad(Parallel& par, DType dtype, int64_t rows, int64_t cols, const void* y,
                  const void* dy, void* dx);

}  // namespace gangway
