#include "executor/kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

DType loss_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

TEST(CrossEntropy, LossAndGradientEqualTheDefinition) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (auto [rows, classes] :
         {std::array<int64_t, 2>{1, 1}, {3, 5}, {33, 17}, {40, 256}, {2, 1001}, {0, 4}}) {
      const Buffer logits(dtype, randoms(rng, dtype, rows * classes, -9, 9)),
          dloss(loss_type(dtype), randoms(rng, loss_type(dtype), rows));
      const auto labels = random_ints(rng, rows, 0, static_cast<int32_t>(classes));
      std::vector<double> loss, lse, dlogits;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits.get(r * classes + c));
        lse.push_back(std::log(sum));
        loss.push_back(lse.back() - logits.get(r * classes + labels[static_cast<size_t>(r)]));
        for (int64_t c = 0; c < classes; ++c) {
          const double p = std::exp(logits.get(r * classes + c)) / sum;
          dlogits.push_back((p - (c == labels[static_cast<size_t>(r)] ? 1 : 0)) * dloss.get(r));
        }
      }
      check_everywhere(
          cat(rows, "x", classes, " ", to_string(dtype)),
          [&, n = rows, k = classes](Parallel& par) {
            Buffer out(loss_type(dtype), n), sums(loss_type(dtype), n), with(dtype, n * k),
                without(dtype, logits.values());
            cross_entropy(par, dtype, n, k, logits.data(), labels.data(), out.data(), sums.data());
            cross_entropy_grad(par, dtype, n, k, logits.data(), labels.data(), sums.data(),
                               dloss.data(), with.data());
            cross_entropy_grad(par, dtype, n, k, without.data(), labels.data(), nullptr,
                               dloss.data(), without.data());
            return outputs(std::move(out), std::move(sums), std::move(with), std::move(without));
          },
          {{loss, 20, 1}, {lse, 20, 1}, {dlogits, 30, 1}, {dlogits, 30, 1}});
    }
  }
}

TEST(CrossEntropy, AWrongLabelGivesNanAndNothingElse) {
  const std::vector<int32_t> labels = {-1, 3, 1};
  for (DType dtype : kFloats) {
    const Buffer logits(dtype, std::vector<double>(9, 0)), dloss(loss_type(dtype), {1, 1, 1});
    const double third = 1.0 / 3;
    check_everywhere("labels",
                     [&](Parallel& par) {
                       Buffer loss(loss_type(dtype), 3), grad(dtype, 9);
                       cross_entropy(par, dtype, 3, 3, logits.data(), labels.data(), loss.data(),
                                     nullptr);
                       cross_entropy_grad(par, dtype, 3, 3, logits.data(), labels.data(), nullptr,
                                          dloss.data(), grad.data());
                       return outputs(std::move(loss), std::move(grad));
                     },
                     {{{NAN, NAN, std::log(3.0)}, 8},
                      {{NAN, NAN, NAN, NAN, NAN, NAN, third, third - 1, third}, 8}});
  }
}

// Rows with a label that is no class, with -inf, and with NaN; also in place.
TEST(CrossEntropy, WithTheGradientHasTheBitsOfBoth) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (auto [rows, classes] :
         {std::array<int64_t, 2>{1, 1}, {3, 5}, {33, 17}, {40, 256}, {4, 1001}, {0, 4}}) {
      Buffer logits(dtype, randoms(rng, dtype, rows * classes, -30, 30));
      const Buffer dloss(loss_type(dtype), randoms(rng, loss_type(dtype), rows));
      auto labels = random_ints(rng, rows, 0, static_cast<int32_t>(classes));
      if (rows > 2) {
        labels[0] = static_cast<int32_t>(classes);
        for (int64_t c = 0; c < 3; ++c) logits.set(classes + c, -INFINITY);
        logits.set(2 * classes + 1, NAN);
      }
      for (KernelIsa isa : isas()) {
        SCOPED_TRACE(cat(rows, "x", classes, " ", to_string(dtype), " on ", to_string(isa)));
        Parallel par(2, isa);
        const DType wide = loss_type(dtype);
        Buffer loss(wide, rows), lse(wide, rows), dlogits(dtype, rows * classes);
        cross_entropy(par, dtype, rows, classes, logits.data(), labels.data(), loss.data(),
                      lse.data());
        cross_entropy_grad(par, dtype, rows, classes, logits.data(), labels.data(), lse.data(),
                           dloss.data(), dlogits.data());
        Buffer apart(dtype, rows * classes), in_place(dtype, logits.values());
        for (Buffer* out : {&apart, &in_place}) {
          Buffer loss_too(wide, rows), lse_too(wide, rows);
          const void* from = out == &apart ? logits.data() : out->data();
          cross_entropy_and_grad(par, dtype, rows, classes, from, labels.data(), dloss.data(),
                                 loss_too.data(), lse_too.data(), out->data());
          EXPECT_TRUE(loss_too.same_bits(loss) && lse_too.same_bits(lse));
          EXPECT_TRUE(out->same_bits(dlogits));
        }
      }
    }
  }
}

}  // namespace
}  // namespace gangway
