#include "executor/kernels/softmax.h"

#include "executor/kernels/simd/simd.h"

namespace gangway {

void softmax(Parallel& par, DType dtype, int64_t rows, int64_t cols, const void* x, void* y) {
  if (cols == 0) return;
  par.for_each_range(rows, 4, [&](int64_t begin, int64_t end) {
    par.simd().softmax_rows(dtype, x, y, begin, end, cols);
  });
}

void softmax_grad(Parallel& par, DType dtype, int64_t rows, int64_t cols, const void* y,
                  const void* dy, void* dx) {
  par.for_each_range(rows, 4, [&](int64_t begin, int64_t end) {
    par.simd().softmax_grad_rows(dtype, y, dy, dx, begin, end, cols);
  });
}

}  // namespace gangway
