#include "executor/kernels/adamw.h"

#include "executor/kernels/simd/simd.h"

namespace gangway {

void adamw(Parallel& par, DType dtype, DType grad, int64_t n, const AdamwRates& scalars,
           const AdamwTensors& tensors) {
  par.for_each_range(n, 4096, [&](int64_t begin, int64_t end) {
    par.simd().adamw_range(dtype, grad, scalars, tensors, begin, end);
  });
}

}  // namespace gangway
