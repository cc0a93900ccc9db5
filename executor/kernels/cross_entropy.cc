#include "executor/kernels/cross_entropy.h"

#include "executor/kernels/simd/simd.h"

namespace gangway {

void cross_entropy(Parallel& par, DType dtype, int64_t rows, int64_t classes, const void* logits,
                   const int32_t* labels, void* loss, void* lse) {
  const simd::CrossEntropyRows args{dtype, classes, logits, labels, loss, lse};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    par.simd().cross_entropy_rows(args, begin, end);
  });
}

void cross_entropy_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                        const void* logits, const int32_t* labels, const void* lse,
                        const void* dloss, void* dlogits) {
  const simd::CrossEntropyGradRows args{dtype, classes, logits, labels, lse, dloss, dlogits};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    par.simd().cross_entropy_grad_rows(args, begin, end);
  });
}

}  // namespace gangway
