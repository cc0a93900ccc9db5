#include "executor/kernels/move.h"

#include <gtest/gtest.h>

#include <numeric>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

const std::vector<DType> kAll = {DType::kBool, DType::kI32, DType::kBF16, DType::kF32, DType::kF64};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// y[i...] = x[...] for every index of copy.sizes, one at a time.
void reference(const StridedCopy& copy, const Buffer& x, std::vector<double>& y) {
  for (int64_t n = 0; n < product(copy.sizes); ++n) {
    int64_t rest = n, from = 0, to = 0;
    for (size_t i = copy.sizes.size(); i-- > 0; rest /= copy.sizes[i]) {
      from += rest % copy.sizes[i] * copy.src_strides[i];
      to += rest % copy.sizes[i] * copy.dst_strides[i];
    }
    y[static_cast<size_t>(to)] = x.get(from);
  }
}

void check(DType dtype, StridedCopy copy, int64_t src_elements, int64_t dst_elements,
           std::mt19937& rng) {
  copy.bytes = static_cast<int64_t>(size_of(dtype));
  const Buffer x(dtype, randoms(rng, dtype, src_elements, 0, 100));
  // The ones are elements that the copy must leave alone.
  std::vector<double> want(static_cast<size_t>(dst_elements), 1);
  reference(copy, x, want);
  check_everywhere(cat("copy of ", src_elements, " ", to_string(dtype)),
                   [&](Parallel& par) {
                     Buffer y(dtype, std::vector<double>(static_cast<size_t>(dst_elements), 1));
                     strided_copy(par, copy, x.data(), y.data());
                     return outputs(std::move(y));
                   },
                   {{want, 0}});
}

TEST(Move, PermutesAnyDimensions) {
  std::mt19937 rng = seeded();
  for (DType dtype : kAll) {
    for (const auto& [sizes, permutation] :
         std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
             {{}, {}},
             {{5}, {0}},
             {{3, 4}, {1, 0}},
             {{130, 67}, {1, 0}},
             {{4, 33, 18}, {0, 2, 1}},
             {{2, 3, 5, 7}, {3, 1, 0, 2}},
             {{6, 1, 40, 9}, {2, 0, 1, 3}},
             {{0, 3}, {1, 0}}}) {
      check(dtype, permute_copy(0, sizes, permutation), product(sizes), product(sizes), rng);
    }
  }
}

TEST(Move, SlicesBroadcastsAndPlacesWindows) {
  std::mt19937 rng = seeded();
  for (DType dtype : kAll) {
    // strided slice
    check(dtype, {.sizes = {3, 5}, .src_strides = {20, 2}, .dst_strides = {5, 1}}, 60, 15, rng);
    check(dtype, {.sizes = {4, 30, 6}, .src_strides = {0, 1, 0}, .dst_strides = {180, 6, 1}}, 30,
          720, rng);  // broadcast
    check(dtype, {.sizes = {7, 2000}, .src_strides = {0, 1}, .dst_strides = {2000, 1}}, 2000, 14000,
          rng);  // rows
    // part of a concat
    check(dtype, {.sizes = {6, 4}, .src_strides = {4, 1}, .dst_strides = {9, 1}}, 24, 54, rng);
  }
}

TEST(Move, FillsCountsAndConverts) {
  for (DType dtype : kAll) {
    std::vector<double> axis;
    for (int i = 0; i < 2 * 7 * 3; ++i)
      axis.push_back(dtype == DType::kBool ? i / 3 % 7 != 0 : i / 3 % 7);
    const double value = dtype == DType::kBool ? 1 : -3;
    check_everywhere("fill",
                     [&](Parallel& par) {
                       Buffer filled(dtype, 20001), counted(dtype, 42), converted(DType::kF64, 42),
                           same(dtype, 42);
                       fill(par, dtype, value, filled.data(), 20001);
                       iota(par, dtype, 2, 7, 3, counted.data());
                       convert(par, dtype, DType::kF64, counted.data(), converted.data(), 42);
                       convert(par, dtype, dtype, counted.data(), same.data(), 42);
                       return outputs(std::move(filled), std::move(counted), std::move(converted),
                                      std::move(same));
                     },
                     {{std::vector<double>(20001, value), 0}, {axis, 0}, {axis, 0}, {axis, 0}});
  }
}

TEST(Move, Bf16RoundTripsAndRoundsToNearestEven) {
  const Buffer x(DType::kF32,
                 {1, 1 + 1.0 / 256, 1 + 3.0 / 256, -0.0, INFINITY, NAN, 3.4e38, 1e-40});
  const Buffer rounded(DType::kBF16, x.values());
  check_everywhere("bf16",
                   [&](Parallel& par) {
                     Buffer narrow(DType::kBF16, 8), wide(DType::kF32, 8);
                     convert(par, DType::kF32, DType::kBF16, x.data(), narrow.data(), 8);
                     convert(par, DType::kBF16, DType::kF32, narrow.data(), wide.data(), 8);
                     return outputs(std::move(narrow), std::move(wide));
                   },
                   {{rounded.values(), 0}, {rounded.values(), 0}});
  EXPECT_EQ(rounded.get(1), 1);
  EXPECT_EQ(rounded.get(2), 1 + 4.0 / 256);
}

TEST(Move, GathersRowsAndScattersThemBackInOrder) {
  std::mt19937 rng = seeded();
  for (DType dtype : {DType::kI32, DType::kBF16, DType::kF32, DType::kF64}) {
    for (auto [rows, dim, n] :
         {std::array<int64_t, 3>{1, 1, 1}, {5, 3, 40}, {20, 67, 300}, {4, 64, 0}}) {
      const RowsShape s{rows, dim, n};
      const Buffer table(dtype, randoms(rng, dtype, rows * dim, -9, 9)),
          updates(dtype, randoms(rng, dtype, n * dim, -9, 9));
      const auto index = random_ints(rng, n, -1, static_cast<int32_t>(rows) + 1);
      std::vector<double> gathered, sums(static_cast<size_t>(rows * dim), 0);
      for (int64_t i = 0; i < n * dim; ++i) {
        const int64_t row = index[static_cast<size_t>(i / dim)];
        gathered.push_back(row >= 0 && row < rows ? table.get(row * dim + i % dim) : 0);
        if (row >= 0 && row < rows)
          sums[static_cast<size_t>(row * dim + i % dim)] += updates.get(i);
      }
      check_everywhere(cat(rows, "x", dim, " of ", n),
                       [&](Parallel& par) {
                         Buffer out(dtype, s.n * s.dim), added(dtype, s.rows * s.dim);
                         gather_rows(par, static_cast<int64_t>(size_of(dtype)), s, table.data(),
                                     index.data(), out.data());
                         Buffer scratch = scratch_of(scatter_add_scratch_bytes(dtype, s));
                         scatter_add_rows(par, dtype, s, index.data(), updates.data(), added.data(),
                                          scratch.data());
                         return outputs(std::move(out), std::move(added));
                       },
                       {{gathered, 0}, {sums, 16}});
    }
  }
}

}  // namespace
}  // namespace gangway
