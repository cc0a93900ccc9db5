#include "executor/kernels/cross_entropy.h"

#include "executor/kernels/simd/simd.h"

namespace gangway {

void cross_entropy(Parallel& par, DType dtype, int64_t rows, int64_t classes, const void* logits,
                   const int32_t* labels, void* loss, void* log_sum) {
  const simd::CrossEntropyRows args{dtype, classes, logits, labels, loss, log_sum};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    par.simd().cross_entropy_rows(args, begin, end);
  });
}

void cross_entropy_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                        const void* logits, const int32_t* labels, const void* log_sum,
                        const void* dloss, void* dlogits) {
  const simd::CrossEntropyGradRows args{dtype, classes, logits, labels, log_sum, dloss, dlogits};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    par.simd().cross_entropy_grad_rows(args, begin, end);
  });
}

void cross_entropy_and_grad(Parallel& par, DType dtype, int64_t rows, int64_t classes,
                            const void* logits, const int32_t* labels, const void* dloss,
                            void* loss, void* log_sum, void* dlogits) {
  const simd::CrossEntropyRows of_loss{dtype, classes, logits, labels, loss, log_sum};
  const simd::CrossEntropyGradRows of_grad{dtype, classes, logits, labels, nullptr, dloss, dlogits};
  par.for_each_range(rows, 16, [&](int64_t begin, int64_t end) {
    par.simd().cross_entropy_and_grad_rows(of_loss, of_grad, begin, end);
  });
}

}  // namespace gangway
