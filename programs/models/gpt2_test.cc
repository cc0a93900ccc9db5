#include "programs/models/gpt2.h"

#include <gtest/gtest.h>

namespace gangway::programs {
namespace {

TEST(Gpt2, HasItsNumbersOfParameters) {
  // The numbers leave out GPT-2's biases and pad its vocabulary.
  EXPECT_NEAR(static_cast<double>(parameter_count(gpt2_124m())), 124.4e6, 0.2e6);
  EXPECT_NEAR(static_cast<double>(parameter_count(gpt2_xl())), 1.557e9, 0.002e9);
}

TEST(Gpt2, ItsExpertsAreEightTimesItsFeedForwardLayers) {
  const TransformerConfig dense = gpt2_124m(), sparse = with_experts(dense, 8, 1);
  const int64_t feed_forward = 2 * dense.layers * dense.dim * dense.hidden;
  const int64_t routers = dense.layers * dense.dim * 8;
  EXPECT_EQ(parameter_count(sparse), parameter_count(dense) + 7 * feed_forward + routers);
}

}  // namespace
}  // namespace gangway::programs
