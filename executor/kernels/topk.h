// The k largest of the last axis, and stable sorting of it.
//
// Order of floats: -inf < ... < +inf < NaN, so that a NaN is seen and never hides a number; -0
// equals +0. Equal elements keep the order of their indices (the lower index first, in top_k too).
// x[rows, n]: f32, bf16, f64, i32.
// Threads: any. Scratch: 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

// values[rows, k] in falling order, and their indices i32[rows, k]; 0 <= k <= n. Cost: O(n k) a
// row.
void top_k(Parallel& par, DType dtype, int64_t rows, int64_t n, int64_t k, const void* x,
           void* values, int32_t* indices);

// values[rows, n] in rising order, and order i32[rows, n]: values[r, i] = x[r, order[r, i]].
// `values` may be null.
size_t sort_scratch_bytes(DType dtype, int64_t rows, int64_t n, int threads);
void sort(Parallel& par, DType dtype, int64_t rows, int64_t n, const void* x, void* values,
          int32_t* order, void* scratch);

}  // namespace gangway
