// RMS norm and layer norm over the last axis, and their gradients; x f32, bf16 (computed in f32) or
// f64.
//
//   rms:   y = x * r * weight,                 r = 1 / sqrt(mean(x^2) + eps)
//   layer: y = (x - mean) * r * weight + bias, r = 1 / sqrt(var(x) + eps), var biased
//
// weight, bias, dweight, dbias are [dim] of `param` (f32, or x's dtype); weight and bias may be
// null (ones, zeros), dx, dweight and dbias may be null (not wanted). Statistics are recomputed in
// the gradient from x: a row is in the first-level cache anyway, and nothing has to be saved.
// dweight and dbias are summed over fixed chunks of rows and then over chunks in order: bits do not
// depend on the number of threads.
// Threads: any. In place allowed (y on x; dx on dy). Scratch for gradients only:
// norm_grad_scratch_bytes, 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct NormShape {
  DType x = DType::kF32, param = DType::kF32;
  int64_t rows = 0, dim = 0;
  double eps = 1e-5;
};

void rms_norm(Parallel& par, const NormShape& shape, const void* x, const void* weight, void* y);
void layer_norm(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                const void* bias, void* y);

size_t norm_grad_scratch_bytes(const NormShape& shape);
void rms_norm_grad(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                   const void* dy, void* dx, void* dweight, void* scratch);
void layer_norm_grad(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                     const void* dy, void* dx, void* dweight, void* dbias, void* scratch);

}  // namespace gangway
