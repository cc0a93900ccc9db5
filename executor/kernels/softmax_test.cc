#include "executor/kernels/softmax.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway::softmax_test {
namespace {

using namespace test;

std::vector<double> reference(const Buffer& x, int64_t rows, int64_t cols) {
  std::vector<double> y;
  for (int64_t r = 0; r < rows; ++r) {
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < cols; ++c) top = std::max(top, x.get(r * cols + c));
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x.get(r * cols + c) - top);
    for (int64_t c = 0; c < cols; ++c) y.push_back(std::exp(x.get(r * cols + c) - top) / sum);
  }
  return y;
}

constexpr std::array<int64_t, 2> kShapes[] = {{1, 1},    {3, 5}, {7, 16}, {9, 33},
                                              {5, 1000}, {0, 8}, {4, 0}};

TEST(Softmax, EqualsItsDefinitionAlsoInPlace) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (auto [rows, cols] : kShapes) {
      const Buffer x(dtype, randoms(rng, dtype, rows * cols, -30, 30));
      const auto want = reference(x, rows, cols);
      check_everywhere(cat(rows, "x", cols, " ", to_string(dtype)),
                       [&, r = rows, c = cols](Parallel& par) {
                         Buffer y(dtype, r * c), z(dtype, x.values());
                         softmax(par, dtype, r, c, x.data(), y.data());
                         softmax(par, dtype, r, c, z.data(), z.data());
                         return outputs(std::move(y), std::move(z));
                       },
                       {{want, 8}, {want, 8}});
    }
  }
}

TEST(Softmax, MaskedEntriesGetNothingAndHugeOnesDoNotOverflow) {
  for (DType dtype : kFloats) {
    const Buffer x(dtype, {-INFINITY, 0, 0, 1e30, -1e30, 1e30});
    check_everywhere("masked",
                     [&](Parallel& par) {
                       Buffer y(dtype, 6);
                       softmax(par, dtype, 2, 3, x.data(), y.data());
                       return outputs(std::move(y));
                     },
                     {{{0, 0.5, 0.5, 0.5, 0, 0.5}, 2}});
  }
}

TEST(Softmax, GradientEqualsItsDefinition) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (auto [rows, cols] : kShapes) {
      const Buffer y(dtype, randoms(rng, dtype, rows * cols, 0, 1)),
          dy(dtype, randoms(rng, dtype, rows * cols));
      std::vector<double> want;
      for (int64_t i = 0; i < rows * cols; ++i) {
        double mean = 0;
        for (int64_t c = 0; c < cols; ++c)
          mean += y.get(i / cols * cols + c) * dy.get(i / cols * cols + c);
        want.push_back(y.get(i) * (dy.get(i) - mean));
      }
      check_everywhere(cat(rows, "x", cols, " ", to_string(dtype)),
                       [&, r = rows, c = cols](Parallel& par) {
                         Buffer dx(dtype, r * c);
                         softmax_grad(par, dtype, r, c, y.data(), dy.data(), dx.data());
                         return outputs(std::move(dx));
                       },
                       {{want, 16}});
    }
  }
}

}  // namespace
}  // namespace gangway::softmax_test
