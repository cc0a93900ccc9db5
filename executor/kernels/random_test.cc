#include "executor/kernels/random.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"
#include "ir/types/type.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

using namespace test;

std::vector<double> whole(DType dtype, bool normal, int64_t n) {
  Parallel par(1);
  Buffer y(dtype, n);
  const RandomShape shape{dtype, n};
  const RandomStart start{{7, 9}, 0};
  normal ? random_normal(par, shape, start, y.data()) : random_uniform(par, shape, start, y.data());
  return y.values();
}

TEST(Random, ElementsDependOnTheirNumberAloneSoPartsJoin) {
  for (DType dtype : kFloats) {
    for (bool normal : {false, true}) {
      const auto all = whole(dtype, normal, 40000);
      for (const auto& [offset, cols, sizes, strides] :
           std::vector<std::tuple<int64_t, int64_t, Dims, Dims>>{{0, 40000, {}, {}},
                                                                 {3, 1, {}, {}},
                                                                 {5, 13, {7}, {100}},
                                                                 {1, 9000, {2}, {20000}},
                                                                 {7, 5, {2, 3, 4}, {9000, 700, 10}},
                                                                 {0, 5, {0}, {5}},
                                                                 {0, 0, {5}, {5}}}) {
        int64_t rows = 1;
        for (int64_t size : sizes) rows *= size;
        std::vector<double> want;
        for (int64_t i = 0; i < rows * cols; ++i) {
          int64_t at = offset + i % cols, row = i / cols;
          for (size_t d = sizes.size(); d-- > 0; row /= sizes[d]) at += row % sizes[d] * strides[d];
          want.push_back(all[static_cast<size_t>(at)]);
        }
        const RandomShape shape{dtype, cols, sizes, strides};
        const RandomStart start{{7, 9}, offset};
        check_everywhere(cat("part of ", want.size()),
                         [&](Parallel& par) {
                           Buffer y(dtype, static_cast<int64_t>(want.size()));
                           normal ? random_normal(par, shape, start, y.data())
                                  : random_uniform(par, shape, start, y.data());
                           return outputs(std::move(y));
                         },
                         {{want, 0}});
      }
    }
  }
}

TEST(Random, UniformF32IsThePhiloxWord) {
  const auto all = whole(DType::kF32, false, 1000);
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t word = philox(7 | (uint64_t{9} << 32), i / 4)[i % 4];
    ASSERT_EQ(all[i], static_cast<double>(word >> 8) / 16777216.0) << i;
  }
}

TEST(Random, MomentsAreThoseOfTheDistribution) {
  for (DType dtype : kFloats) {
    for (bool normal : {false, true}) {
      double mean = 0, square = 0, fourth = 0;
      const int64_t n = 200000;
      for (double x : whole(dtype, normal, n)) {
        const double centered = normal ? x : x - 0.5;
        ASSERT_TRUE(normal ? std::abs(x) < 7 : (x >= 0 && x < 1)) << x;
        mean += centered / static_cast<double>(n);
        square += centered * centered / static_cast<double>(n);
        fourth += std::pow(centered, 4) / static_cast<double>(n);
      }
      EXPECT_NEAR(mean, 0, normal ? 0.01 : 0.005);
      EXPECT_NEAR(square, normal ? 1 : 1.0 / 12, normal ? 0.02 : 0.002);
      EXPECT_NEAR(fourth, normal ? 3 : 1.0 / 80, normal ? 0.15 : 0.001);
    }
  }
}

TEST(Random, KeysGiveDifferentNumbers) {
  Parallel par(1);
  Buffer a(DType::kF32, 100), b(DType::kF32, 100), c(DType::kF32, 100);
  random_uniform(par, {DType::kF32, 100}, {{1, 0}, 0}, a.data());
  random_uniform(par, {DType::kF32, 100}, {{0, 1}, 0}, b.data());
  random_uniform(par, {DType::kF32, 100}, {{1, 1}, 0}, c.data());
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_NE(a.get(i), b.get(i));
    EXPECT_NE(a.get(i), c.get(i));
  }
}

}  // namespace
}  // namespace gangway
