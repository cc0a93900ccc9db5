// Checks that a model learned under a strategy what it learns on one device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/strategies/training.h"

namespace gangway::programs {

// Sums in another order differ by some units of 2^-53 of the largest term.
inline constexpr double kLossTolerance = 1e-9, kGradientTolerance = 1e-10;

// Compares relative to the tensor's largest element: an element that is nearly 0 is a difference of
// larger ones.
inline void expect_equal_gradients(const std::vector<double>& got,
                                   const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], kGradientTolerance * largest) << "element " << i;
}

inline void expect_equal_in_f64(const Outcome& got, const Outcome& expected) {
  EXPECT_NEAR(got.norm, expected.norm, kGradientTolerance * expected.norm);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(got.gradients.contains(name));
    expect_equal_gradients(got.gradients.at(name), gradient);
  }
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], kLossTolerance * expected.losses[i])
        << "step " << i + 1;
}

}  // namespace gangway::programs
