// Reductions and prefix sums over one axis (adjacent axes count as one).
//
//   reduce: x[outer, axis, inner] -> y[outer, inner];   argmax gives i32.
//
// A sum of f32 and bf16 is f32 (f64 and i32 as such) over short runs, then over runs and over fixed
// pieces of the axis: its error grows as the root of the axis, and its bits depend on the shape
// alone, not on the number of threads. Running sums of f32 and bf16 are kept in f64. max
// and min propagate NaN (argmax: the first NaN); an empty axis gives 0, -inf (lowest i32), +inf
// (highest i32) and index 0. argmax takes the lowest index among equals. bool is not reduced:
// convert first.
//
// Threads: any. Scratch: reduce_scratch_bytes, 64-byte aligned.
// Cost: one pass over x.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

enum class ReduceOp : uint8_t { kSum, kMax, kMin, kArgmax };

struct AxisShape {
  int64_t outer = 1, axis = 0, inner = 1;
};

size_t reduce_scratch_bytes(ReduceOp op, DType dtype, const AxisShape& shape);
void reduce(Parallel& par, ReduceOp op, DType dtype, const AxisShape& shape, const void* x, void* y,
            void* scratch);

// y[o, a, i] = sum of x[o, 0..a, i]; i32, f32, bf16, f64. In place allowed.
void cumsum(Parallel& par, DType dtype, const AxisShape& shape, const void* x, void* y);

// sum of x[i]^2 of a float tensor -> f32[] (f64[] of f64), in fixed order. Scratch:
// sum_squares_scratch_bytes(n).
size_t sum_squares_scratch_bytes(int64_t n);
void sum_squares(Parallel& par, DType dtype, const void* x, int64_t n, void* y, void* scratch);

// Whether a float tensor holds no infinity and no NaN.
bool all_finite(Parallel& par, DType dtype, const void* x, int64_t n);

}  // namespace gangway
