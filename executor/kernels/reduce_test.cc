#include "executor/kernels/reduce.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

const std::vector<DType> kNumbers = {DType::kF32, DType::kBF16, DType::kF64, DType::kI32};
const AxisShape kShapes[] = {{1, 1, 1},     {3, 7, 1},   {3, 7, 5}, {2, 100, 33}, {1, 50000, 1},
                             {1, 700, 130}, {4, 3, 300}, {5, 1, 2}, {0, 3, 2},    {3, 4, 0}};

double combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kSum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

TEST(Reduce, SumMaxAndMinEqualTheirDefinition) {
  std::mt19937 rng = seeded();
  for (DType dtype : kNumbers) {
    for (const AxisShape& s : kShapes) {
      std::vector<double> values = randoms(rng, dtype, s.outer * s.axis * s.inner, -9, 9);
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
        if (op != ReduceOp::kSum && dtype != DType::kI32 && values.size() > 40) values[17] = NAN;
        const Buffer x(dtype, values);
        std::vector<double> want;
        for (int64_t j = 0; j < s.outer * s.inner; ++j) {
          const int64_t first = j / s.inner * s.axis * s.inner + j % s.inner;
          double all = x.get(first);
          for (int64_t a = 1; a < s.axis; ++a) all = combine(op, all, x.get(first + a * s.inner));
          want.push_back(all);
        }
        check_everywhere(cat(static_cast<int>(op), " of ", s.outer, ",", s.axis, ",", s.inner, " ",
                             to_string(dtype)),
                         [&](Parallel& par) {
                           Buffer y(dtype, s.outer * s.inner);
                           Buffer scratch = scratch_of(reduce_scratch_bytes(op, dtype, s));
                           reduce(par, op, dtype, s, x.data(), y.data(), scratch.data());
                           return outputs(std::move(y));
                         },
                         {{want, dtype == DType::kF64 ? 500.0 : 60.0}});
      }
    }
  }
}

TEST(Reduce, AnEmptyAxisGivesTheNeutralElement) {
  for (DType dtype : kNumbers) {
    const bool integer = dtype == DType::kI32;
    const double low = integer ? -2147483648.0 : -INFINITY,
                 high = integer ? 2147483647.0 : INFINITY;
    for (auto [op, want] :
         {std::pair{ReduceOp::kSum, 0.0}, {ReduceOp::kMax, low}, {ReduceOp::kMin, high}}) {
      for (int64_t inner : {1, 20}) {
        const AxisShape s{2, 0, inner};
        check_everywhere("empty",
                         [&, o = op](Parallel& par) {
                           Buffer y(dtype, 2 * inner);
                           Buffer scratch = scratch_of(reduce_scratch_bytes(o, dtype, s));
                           reduce(par, o, dtype, s, scratch.data(), y.data(), scratch.data());
                           return outputs(std::move(y));
                         },
                         {{std::vector<double>(static_cast<size_t>(2 * inner), want), 0}});
      }
    }
  }
}

TEST(Reduce, ArgmaxTakesTheLowestIndexAmongEqualsAndTheFirstNan) {
  for (DType dtype : kNumbers) {
    const double nan = dtype == DType::kI32 ? 9 : NAN;
    const Buffer x(dtype, {1, 5, 5, 2, 3, nan, 7, nan, -4, -4, -5, -4});
    check_everywhere(
        "argmax",
        [&](Parallel& par) {
          Buffer y(DType::kI32, 3), columns(DType::kI32, 4);
          reduce(par, ReduceOp::kArgmax, dtype, {3, 4, 1}, x.data(), y.data(), nullptr);
          reduce(par, ReduceOp::kArgmax, dtype, {1, 3, 4}, x.data(), columns.data(), nullptr);
          return outputs(std::move(y), std::move(columns));
        },
        {{{1, 1, 0}, 0}, {{1, 1, 1, 1}, 0}});
  }
}

TEST(Reduce, CumsumAddsAlongTheAxis) {
  std::mt19937 rng = seeded();
  for (DType dtype : kNumbers) {
    for (const AxisShape& s : {AxisShape{1, 1, 1}, {3, 40, 1}, {2, 9, 33}, {2, 0, 3}}) {
      const Buffer x(dtype, randoms(rng, dtype, s.outer * s.axis * s.inner, 0, 5));
      std::vector<double> want = x.values();
      for (size_t i = 0; i < want.size(); ++i) {
        if (static_cast<int64_t>(i) / s.inner % s.axis != 0)
          want[i] += want[i - static_cast<size_t>(s.inner)];
      }
      check_everywhere("cumsum",
                       [&](Parallel& par) {
                         Buffer y(dtype, x.size());
                         cumsum(par, dtype, s, x.data(), y.data());
                         return outputs(std::move(y));
                       },
                       {{want, 20}});
    }
  }
}

// A sum that is added to one by one stands still once the next element is below half a step of it.
TEST(Reduce, LongSumsAndRunningSumsKeepTheirDigits) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const int64_t n = int64_t{1} << 20;
    const Buffer x(dtype, std::vector<double>(static_cast<size_t>(n), 0.1));
    const double each = x.get(0);
    std::vector<double> running;
    for (int64_t i = 1; i <= n; ++i) running.push_back(static_cast<double>(i) * each);
    check_everywhere(cat("cumsum of ", to_string(dtype)),
                     [&](Parallel& par) {
                       Buffer y(dtype, n);
                       cumsum(par, dtype, {1, n, 1}, x.data(), y.data());
                       return outputs(std::move(y));
                     },
                     {{running, 2}});
    for (const int64_t inner : {1, 2, 32, 4096}) {
      const AxisShape shape{1, n / inner, inner};
      const std::vector<double> want(static_cast<size_t>(inner),
                                     static_cast<double>(shape.axis) * each);
      check_everywhere(
          cat("sum of ", shape.axis, " ", to_string(dtype)),
          [&](Parallel& par) {
            Buffer y(dtype, inner);
            Buffer scratch = scratch_of(reduce_scratch_bytes(ReduceOp::kSum, dtype, shape));
            reduce(par, ReduceOp::kSum, dtype, shape, x.data(), y.data(), scratch.data());
            return outputs(std::move(y));
          },
          {{want, dtype == DType::kBF16 ? 1.0 : 60.0}});
    }
  }
}

TEST(Reduce, SumSquaresAndFinitenessSeeEveryElement) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (int64_t n : {0, 1, 31, 70000, 200003}) {
      std::vector<double> values = randoms(rng, dtype, n);
      double sum = 0;
      for (double v : values) sum += v * v;
      const Buffer x(dtype, values);
      const DType out = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      check_everywhere(cat("squares of ", n),
                       [&](Parallel& par) {
                         Buffer y(out, 1), finite(DType::kBool, 1);
                         Buffer scratch = scratch_of(sum_squares_scratch_bytes(n));
                         sum_squares(par, dtype, x.data(), n, y.data(), scratch.data());
                         finite.set(0, all_finite(par, dtype, x.data(), n));
                         return outputs(std::move(y), std::move(finite));
                       },
                       {{{sum}, out == DType::kF64 ? 200.0 : 4.0}, {{1}, 0}});
      for (double bad : {static_cast<double>(INFINITY), -static_cast<double>(INFINITY),
                         static_cast<double>(NAN)}) {
        if (n == 0) continue;
        std::vector<double> spoilt = values;
        spoilt[rng() % spoilt.size()] = bad;
        const Buffer b(dtype, spoilt);
        for (KernelIsa isa : isas()) {
          Parallel par(2, isa);
          EXPECT_FALSE(all_finite(par, dtype, b.data(), n));
        }
      }
    }
  }
}

}  // namespace
}  // namespace gangway
