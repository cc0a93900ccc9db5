#include "executor/kernels/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "executor/kernels/kernel_test.h"

namespace gangway::topk_test {
namespace {

using namespace test;

const std::vector<DType> kNumbers = {DType::kF32, DType::kBF16, DType::kF64, DType::kI32};

bool below(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

// Few distinct values, so that ties abound, and every special one.
Buffer tied(std::mt19937& rng, DType dtype, int64_t n) {
  const double special[] = {-3, -0.0, 0, 2, 100000, -INFINITY, INFINITY, NAN, 1e-30};
  Buffer x(dtype, n);
  for (int64_t i = 0; i < n; ++i) x.set(i, special[rng() % (dtype == DType::kI32 ? 5 : 9)]);
  return x;
}

// The order of one row by its definition.
std::vector<int32_t> order_of(const Buffer& x, int64_t row, int64_t n, bool falling) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const double va = x.get(row * n + a), vb = x.get(row * n + b);
    return falling ? below(vb, va) : below(va, vb);
  });
  return order;
}

TEST(TopK, GivesTheLargestTheLowerIndexFirstAndNanAboveAll) {
  std::mt19937 rng = seeded();
  for (DType dtype : kNumbers) {
    for (auto [rows, n, k] :
         {std::array<int64_t, 3>{1, 1, 1}, {200, 8, 2}, {3, 40, 40}, {5, 9, 0}, {0, 3, 2}}) {
      const Buffer x = tied(rng, dtype, rows * n);
      Expected values{{}, 0}, indices{{}, 0};
      for (int64_t r = 0; r < rows; ++r) {
        const auto order = order_of(x, r, n, true);
        for (int64_t j = 0; j < k; ++j) {
          indices.values.push_back(order[static_cast<size_t>(j)]);
          values.values.push_back(x.get(r * n + order[static_cast<size_t>(j)]));
        }
      }
      check_everywhere(cat(rows, "x", n, " top ", k),
                       [&, r = rows, c = n, top = k](Parallel& par) {
                         Buffer v(dtype, r * top), i(DType::kI32, r * top);
                         top_k(par, dtype, r, c, top, x.data(), v.data(), i.as<int32_t>());
                         return outputs(std::move(v), std::move(i));
                       },
                       {values, indices});
    }
  }
}

TEST(Sort, IsStableInRisingOrder) {
  std::mt19937 rng = seeded();
  for (DType dtype : kNumbers) {
    for (auto [rows, n] : {std::array<int64_t, 2>{1, 1}, {4, 300}, {1, 5000}, {3, 0}, {0, 3}}) {
      Buffer x = tied(rng, dtype, rows * n);
      for (int64_t i = 0; i < x.size(); i += 2) x.set(i, randoms(rng, dtype, 1, -1000, 1000)[0]);
      Expected values{{}, 0}, indices{{}, 0};
      for (int64_t r = 0; r < rows; ++r) {
        for (int32_t i : order_of(x, r, n, false)) {
          indices.values.push_back(i);
          values.values.push_back(x.get(r * n + i));
        }
      }
      check_everywhere(
          cat(rows, "x", n, " ", to_string(dtype)),
          [&, r = rows, c = n](Parallel& par) {
            Buffer v(dtype, r * c), i(DType::kI32, r * c);
            Buffer scratch = scratch_of(sort_scratch_bytes(dtype, r, c, par.threads()));
            sort(par, dtype, r, c, x.data(), v.data(), i.as<int32_t>(), scratch.data());
            return outputs(std::move(v), std::move(i));
          },
          {values, indices});
    }
  }
}

}  // namespace
}  // namespace gangway::topk_test
