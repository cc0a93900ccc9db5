#include "executor/kernels/grouped_matmul.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

struct Case {
  int64_t groups, slots, experts, d, h;
  std::vector<int32_t> sizes;
};
const Case kCases[] = {
    {1, 5, 1, 3, 4, {5}},
    {1, 9, 3, 7, 5, {4, 0, 5}},
    {2, 10, 3, 16, 24, {3, 3, 2, 0, 10, 0}},
    {3, 90, 2, 40, 33, {70, 20, 1, 65, 0, 0}},
    {2, 4, 2, 8, 8, {9, -3, 3, 9}},  // More rows than slots, and a negative size: cut to what fits.
    {1, 0, 2, 4, 4, {0, 0}},
    {2, 4, 2, 0, 3, {2, 2, 1, 0}},
    {1, 4, 2, 3, 0, {2, 2}},
    // More than a block of every kind: rows of a call, slices of a sum, columns of a panel.
    {2, 301, 3, 330, 70, {7, 193, 100, 150, 150, 1}},
    {1, 140, 2, 64, 321, {129, 11}},
    // Odd segments of one expert, that fill a slice together and pass it.
    {4, 290, 2, 66, 65, {257, 33, 1, 255, 131, 3, 127, 127}},
};

// The expert of each row, or -1.
std::vector<int64_t> owners(const Case& c) {
  std::vector<int64_t> all;
  for (int64_t g = 0; g < c.groups; ++g) {
    std::vector<int64_t> rows;
    for (int64_t e = 0; e < c.experts; ++e)
      rows.insert(rows.end(),
                  static_cast<size_t>(std::max(c.sizes[static_cast<size_t>(g * c.experts + e)], 0)),
                  e);
    rows.resize(static_cast<size_t>(c.slots), -1);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

void check(const Case& c, DType in, DType out, std::mt19937& rng) {
  const int64_t rows = c.groups * c.slots;
  const Buffer x(in, randoms(rng, in, rows * c.d)), w(in, randoms(rng, in, c.experts * c.d * c.h)),
      dy(in, randoms(rng, in, rows * c.h));
  auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0); };
  auto y = zeros(rows * c.h), dx = zeros(rows * c.d), dw = zeros(w.size());
  const auto owner = owners(c);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t e = owner[static_cast<size_t>(r)];
    for (int64_t i = 0; i < c.d && e >= 0; ++i) {
      for (int64_t j = 0; j < c.h; ++j) {
        const int64_t at = (e * c.d + i) * c.h + j;
        y[static_cast<size_t>(r * c.h + j)] += x.get(r * c.d + i) * w.get(at);
        dx[static_cast<size_t>(r * c.d + i)] += dy.get(r * c.h + j) * w.get(at);
        dw[static_cast<size_t>(at)] += x.get(r * c.d + i) * dy.get(r * c.h + j);
      }
    }
  }
  auto run = [&](Parallel& par, GroupedKind kind, const Buffer& a, const Buffer& b, int64_t n) {
    const GroupedMatmul product({kind, in, in, out, c.groups, c.slots, c.experts, c.d, c.h},
                                par.isa());
    Buffer result(out, n);
    Buffer scratch = scratch_of(product.scratch_bytes(par.threads()));
    product.run(par, a.data(), b.data(), c.sizes.data(), result.data(), scratch.data());
    return result;
  };
  check_everywhere(
      cat(c.groups, " groups of ", c.slots, " ", to_string(in), " -> ", to_string(out)),
      [&](Parallel& par) {
        return outputs(run(par, GroupedKind::kForward, x, w, rows * c.h),
                       run(par, GroupedKind::kGradInput, dy, w, rows * c.d),
                       run(par, GroupedKind::kGradWeight, x, dy, w.size()));
      },
      {{y, 16}, {dx, 16}, {dw, 16}});
}

TEST(GroupedMatmul, EachRowMeetsTheMatrixOfItsExpert) {
  std::mt19937 rng = seeded();
  for (const Case& c : kCases) {
    for (DType dtype : kFloats) check(c, dtype, dtype, rng);
    check(c, DType::kBF16, DType::kF32, rng);
  }
}

}  // namespace
}  // namespace gangway
