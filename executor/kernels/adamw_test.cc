#include "executor/kernels/adamw.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

TEST(Adamw, StepEqualsItsDefinitionInEveryMixtureOfTypes) {
  std::mt19937 rng = seeded();
  const AdamwRates a{.lr = 0.01,
                     .correction1 = 0.19,
                     .correction2 = 0.0975,
                     .grad_scale = 0.7,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .eps = 1e-8,
                     .weight_decay = 0.1};
  for (auto [dtype, grad] : {std::pair{DType::kF32, DType::kF32},
                             {DType::kF32, DType::kBF16},
                             {DType::kF64, DType::kF64},
                             {DType::kF64, DType::kF32}}) {
    for (int64_t n : {0, 1, 15, 33, 9001}) {
      const auto p = randoms(rng, dtype, n), g = randoms(rng, grad, n), m = randoms(rng, dtype, n),
                 v = randoms(rng, dtype, n, 0, 1);
      const Buffer gradient(grad, g);
      Expected want_p{{}, 8}, want_m{{}, 8}, want_v{{}, 8};
      for (size_t i = 0; i < p.size(); ++i) {
        const double scaled = a.grad_scale * g[i];
        want_m.values.push_back(a.beta1 * m[i] + (1 - a.beta1) * scaled);
        want_v.values.push_back(a.beta2 * v[i] + (1 - a.beta2) * scaled * scaled);
        const double step = want_m.values[i] / a.correction1 /
                            (std::sqrt(want_v.values[i] / a.correction2) + a.eps);
        want_p.values.push_back(p[i] - a.lr * (step + a.weight_decay * p[i]));
      }
      check_everywhere(cat(n, " ", to_string(dtype), " with ", to_string(grad)),
                       [&, d = dtype, gd = grad](Parallel& par) {
                         Buffer bp(d, p), bm(d, m), bv(d, v);
                         adamw(par, d, gd, n, a,
                               {bp.data(), gradient.data(), bm.data(), bv.data(), bp.data(),
                                bm.data(), bv.data()});
                         return outputs(std::move(bp), std::move(bm), std::move(bv));
                       },
                       {want_p, want_m, want_v});
    }
  }
}

}  // namespace
}  // namespace gangway
