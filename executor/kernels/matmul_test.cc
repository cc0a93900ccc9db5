#include "executor/kernels/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using namespace test;

// The product by its definition, over any strides; c's elements outside the product keep their
// start values.
std::vector<double> reference(const MatmulDesc& d, const std::vector<double>& a,
                              const std::vector<double>& b, std::vector<double> c, int64_t stride_a,
                              int64_t stride_b) {
  const int64_t lda = d.lda ? d.lda : (d.transpose_a ? d.m : d.k),
                ldb = d.ldb ? d.ldb : (d.transpose_b ? d.k : d.n);
  const int64_t ldc = d.ldc ? d.ldc : d.n;
  for (int64_t s = 0; s < d.batch; ++s) {
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < d.k; ++k) {
          sum +=
              a[static_cast<size_t>(s * stride_a + (d.transpose_a ? k * lda + i : i * lda + k))] *
              b[static_cast<size_t>(s * stride_b + (d.transpose_b ? j * ldb + k : k * ldb + j))];
        }
        double& to = c[static_cast<size_t>(s * d.m * ldc + i * ldc + j)];
        to = d.accumulate ? to + sum : sum;
      }
    }
  }
  return c;
}

void check(MatmulDesc d) {
  std::mt19937 rng = seeded();
  const int64_t rows_a = d.transpose_a ? d.k : d.m,
                cols_a = d.lda ? d.lda : (d.transpose_a ? d.m : d.k);
  const int64_t rows_b = d.transpose_b ? d.n : d.k,
                cols_b = d.ldb ? d.ldb : (d.transpose_b ? d.k : d.n);
  const int64_t stride_b = d.batch_stride_b == kSameMatrix ? 0 : rows_b * cols_b;
  const auto a = randoms(rng, d.a, d.batch * rows_a * cols_a),
             b = randoms(rng, d.b, stride_b == 0 ? rows_b * cols_b : d.batch * rows_b * cols_b);
  const auto c = randoms(rng, d.c, d.batch * d.m * (d.ldc ? d.ldc : d.n));
  const Buffer ba(d.a, a), bb(d.b, b);
  const std::string name = cat("batch ", d.batch, " ", d.m, "x", d.n, "x", d.k, " ", to_string(d.a),
                               "->", to_string(d.c), d.transpose_a ? " ta" : "",
                               d.transpose_b ? " tb" : "", d.accumulate ? " acc" : "");
  check_everywhere(name,
                   [&](Parallel& par) {
                     Buffer out(d.c, c);
                     const Matmul product(d, par.isa());
                     Buffer scratch = scratch_of(product.scratch_bytes(par.threads()));
                     product.run(par, ba.data(), bb.data(), out.data(), scratch.data());
                     return outputs(std::move(out));
                   },
                   {{reference(d, a, b, c, rows_a * cols_a, stride_b), 16}});
}

TEST(Matmul, EqualsTheDefinitionOverOddSizesAndTransposes) {
  for (DType dtype : kFloats) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                           {3, 5, 7},
                           {17, 33, 65},
                           {50, 67, 129},
                           {300, 72, 128}}) {
      for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
          check({.a = dtype,
                 .b = dtype,
                 .c = dtype,
                 .m = m,
                 .n = n,
                 .k = k,
                 .transpose_a = ta,
                 .transpose_b = tb});
        }
      }
    }
  }
}

TEST(Matmul, ComputesBatchesStridesAndAccumulation) {
  for (DType dtype : kFloats) {
    check({.a = dtype, .b = dtype, .c = dtype, .batch = 3, .m = 5, .n = 9, .k = 4});
    check({.a = dtype,
           .b = dtype,
           .c = dtype,
           .batch = 3,
           .m = 5,
           .n = 9,
           .k = 4,
           .batch_stride_b = kSameMatrix});
    check({.a = dtype,
           .b = dtype,
           .c = dtype,
           .m = 20,
           .n = 9,
           .k = 6,
           .lda = 11,
           .ldb = 13,
           .ldc = 10});
    check({.a = dtype, .b = dtype, .c = dtype, .m = 20, .n = 9, .k = 6, .accumulate = true});
    check({.a = dtype,
           .b = dtype,
           .c = dtype,
           .batch = 2,
           .m = 130,
           .n = 96,
           .k = 100,
           .transpose_a = true,
           .accumulate = true});
  }
}

TEST(Matmul, WritesF32FromBf16) {
  check({.a = DType::kBF16, .b = DType::kBF16, .c = DType::kF32, .m = 70, .n = 40, .k = 90});
  check({.a = DType::kBF16,
         .b = DType::kBF16,
         .c = DType::kF32,
         .m = 256,
         .n = 128,
         .k = 300,
         .transpose_a = true,
         .accumulate = true});
}

TEST(Matmul, SplitsWeightGradientsOverThreadsWithoutChangingBits) {
  for (DType dtype : kFloats) {
    check({.a = dtype, .b = dtype, .c = dtype, .m = 96, .n = 80, .k = 1000, .transpose_a = true});
    check({.a = dtype, .b = dtype, .c = dtype, .m = 1100, .n = 64, .k = 32});
  }
}

TEST(Matmul, EmptyProductsAreEmptyAndEmptySumsAreZero) {
  for (DType dtype : kFloats) {
    check({.a = dtype, .b = dtype, .c = dtype, .m = 0, .n = 4, .k = 4});
    check({.a = dtype, .b = dtype, .c = dtype, .m = 4, .n = 0, .k = 4});
    check({.a = dtype, .b = dtype, .c = dtype, .m = 4, .n = 3, .k = 0});
    check({.a = dtype, .b = dtype, .c = dtype, .m = 4, .n = 3, .k = 0, .accumulate = true});
    check({.a = dtype, .b = dtype, .c = dtype, .batch = 0, .m = 4, .n = 3, .k = 2});
  }
}

TEST(Matmul, RefusesTypesWithoutAKernel) {
  try {
    Matmul product({.a = DType::kI32, .b = DType::kI32, .c = DType::kI32, .m = 1, .n = 1, .k = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("expected f32, bf16 or f64 on both sides, got i32 x i32"));
  }
}

}  // namespace
}  // namespace gangway
