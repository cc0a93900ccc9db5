#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gangway {
namespace {

TEST(Permutation, VisitsEveryElementOnce) {
  for (uint64_t size : {1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097}) {
    Permutation permutation(size, 7);
    std::vector<int> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(permutation(i), size);
      ++seen[permutation(i)];
    }
    EXPECT_EQ(seen, std::vector<int>(size, 1)) << size;
  }
}

TEST(Permutation, WorksOnSizesThatFitNoTable) {
  uint64_t size = (uint64_t{1} << 62) + 3;
  Permutation permutation(size, 7);
  EXPECT_LT(permutation(0), size);
  EXPECT_LT(permutation(size - 1), size);
  EXPECT_NE(permutation(0), permutation(size - 1));
}

TEST(Permutation, DependsOnTheKey) {
  Permutation a(1000, 1), b(1000, 2);
  int equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) equal += a(i) == b(i);
  EXPECT_LT(equal, 20);
}

TEST(Permutation, IsFixedForEver) {
  // Resuming an old checkpoint reads the same data only while these numbers stand.
  Permutation permutation(1000, 42);
  std::vector<uint64_t> first;
  for (uint64_t i = 0; i < 4; ++i) first.push_back(permutation(i));
  EXPECT_EQ(first, (std::vector<uint64_t>{150, 623, 430, 9}));
}

TEST(Permutation, NeighboursAreUncorrelated) {
  constexpr uint64_t kSize = 10000;
  Permutation permutation(kSize, 3);
  double mean = (kSize - 1) / 2.0, covariance = 0, variance = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    double a = static_cast<double>(permutation(i)) - mean;
    double b = static_cast<double>(permutation(i + 1)) - mean;
    covariance += a * b;
    variance += a * a;
  }
  EXPECT_LT(std::abs(covariance / variance), 0.05);
}

}  // namespace
}  // namespace gangway
