// One decoupled-decay Adam step (Loshchilov & Hutter 2019) over a whole tensor.
//
//   g' = grad_scale * g;  m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
//   p = p - lr * (m / correction1 / (sqrt(v / correction2) + eps) + weight_decay * p)
//
// p, m, v are f32 (f64 when `dtype` is f64); g is any float. Outputs may be the inputs (in place).
// The scalars are run-time values: nothing is recompiled when one changes.
// Threads: any. An element's bits depend on its inputs alone.
// Cost: one pass, 28 bytes an element.
#pragma once

#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct AdamwRates {
  double lr = 0, correction1 = 1, correction2 = 1, grad_scale = 1;  // correction = 1 - beta^t
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};

struct AdamwTensors {
  const void *p, *g, *m, *v;
  void *p_out, *m_out, *v_out;
};

// dtype: of p, m, v (f32 or f64); grad: of g.
void adamw(Parallel& par, DType dtype, DType grad, int64_t n, const AdamwRates& scalars,
           const AdamwTensors& tensors);

}  // namespace gangway
