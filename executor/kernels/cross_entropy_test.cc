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
      std::vector<double> loss, log_sums, dlogits;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0, largest = -INFINITY;
        for (int64_t c = 0; c < classes; ++c) {
          sum += std::exp(logits.get(r * classes + c));
          largest = std::max(largest, logits.get(r * classes + c));
        }
        log_sums.push_back(std::log(sum) - largest);
        loss.push_back(std::log(sum) - logits.get(r * classes + labels[static_cast<size_t>(r)]));
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
          {{loss, 20, 1}, {log_sums, 20, 1}, {dlogits, 30, 1}, {dlogits, 30, 1}});
    }
  }
}

// In f32, where 1e6 leaves steps of 1/16: the logits are whole steps, so what they share is exact.
TEST(CrossEntropy, AnOffsetCommonToAllLogitsCostsNoDigitsOfLossOrGradient) {
  std::mt19937 rng = seeded();
  for (auto [rows, classes] : {std::array<int64_t, 2>{1, 4}, {33, 17}, {5, 1001}}) {
    std::vector<double> plain = {0, 1, 2, 1};
    std::vector<int32_t> labels = {0};
    if (rows > 1) {
      plain.clear();
      for (const int32_t sixteenths : random_ints(rng, rows * classes, -100, 100))
        plain.push_back(sixteenths / 16.0);
      labels = random_ints(rng, rows, 0, static_cast<int32_t>(classes));
    }
    std::vector<double> loss, dlogits;
    for (int64_t r = 0; r < rows; ++r) {
      const double* x = plain.data() + r * classes;
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c]);
      loss.push_back(std::log(sum) - x[labels[static_cast<size_t>(r)]]);
      for (int64_t c = 0; c < classes; ++c)
        dlogits.push_back(std::exp(x[c]) / sum - (c == labels[static_cast<size_t>(r)] ? 1 : 0));
    }
    const Buffer dloss(DType::kF32, std::vector<double>(static_cast<size_t>(rows), 1));
    for (const double offset : {0.0, 1e4, -1e4, 1e6}) {
      Buffer logits(DType::kF32, rows * classes);
      for (int64_t i = 0; i < rows * classes; ++i)
        logits.set(i, plain[static_cast<size_t>(i)] + offset);
      check_everywhere(
          cat(rows, "x", classes, " at ", offset),
          [&, n = rows, k = classes](Parallel& par) {
            Buffer apart(DType::kF32, n), log_sum(DType::kF32, n), grad(DType::kF32, n * k),
                together(DType::kF32, n), grad_too(DType::kF32, n * k);
            cross_entropy(par, DType::kF32, n, k, logits.data(), labels.data(), apart.data(),
                          log_sum.data());
            cross_entropy_grad(par, DType::kF32, n, k, logits.data(), labels.data(), log_sum.data(),
                               dloss.data(), grad.data());
            cross_entropy_and_grad(par, DType::kF32, n, k, logits.data(), labels.data(),
                                   dloss.data(), together.data(), log_sum.data(), grad_too.data());
            return outputs(std::move(apart), std::move(grad), std::move(together),
                           std::move(grad_too));
          },
          {{loss, 20, 1}, {dlogits, 30, 1}, {loss, 20, 1}, {dlogits, 30, 1}});
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
        Buffer loss(wide, rows), log_sum(wide, rows), dlogits(dtype, rows * classes);
        cross_entropy(par, dtype, rows, classes, logits.data(), labels.data(), loss.data(),
                      log_sum.data());
        cross_entropy_grad(par, dtype, rows, classes, logits.data(), labels.data(), log_sum.data(),
                           dloss.data(), dlogits.data());
        Buffer apart(dtype, rows * classes), in_place(dtype, logits.values());
        for (Buffer* out : {&apart, &in_place}) {
          Buffer loss_too(wide, rows), log_sum_too(wide, rows);
          const void* from = out == &apart ? logits.data() : out->data();
          cross_entropy_and_grad(par, dtype, rows, classes, from, labels.data(), dloss.data(),
                                 loss_too.data(), log_sum_too.data(), out->data());
          EXPECT_TRUE(loss_too.same_bits(loss) && log_sum_too.same_bits(log_sum));
          EXPECT_TRUE(out->same_bits(dlogits));
        }
      }
    }
  }
}

}  // namespace
}  // namespace gangway
