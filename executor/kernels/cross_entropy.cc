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

void cross_entropy_and_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                            const void* logits, const int32_t* labels, const void* dloss,
                            void* loss, void* lse, void* dlogits) {
  const simd::CrossEntropyRows of_loss{dtype, classes, logits, labels, loss, lse};
  const simd::CrossEntropyGradRows of_grad{dtype, classes, logits, labels, lse, dloss, dlogits};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      par.simd().cross_entropy_rows(of_loss, row, row + 1);
      par.simd().cross_entropy_grad_rows(of_grad, row, row + 1);
    }
  });
}

}  // namespace gangway
