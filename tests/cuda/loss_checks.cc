#include "tests/cuda/loss_checks.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/cuda/cuda_cluster.h"

namespace gangway {

void expect_the_losses_of_the_cpu(const Card& card, const programs::LanguageModelConfig& config,
                                  const LossCheck& check) {
  const std::vector<float> want =
      losses_on({.devices = 1, .memory_bytes = check.memory_bytes, .threads = check.threads},
                config, check.steps, check.lr);
  const std::vector<float> got = losses_on({.kind = DeviceKind::kCuda,
                                            .devices = check.devices,
                                            .memory_bytes = check.memory_bytes,
                                            .gpus = {card.driver}},
                                           config, check.steps, check.lr);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    std::printf("step %zu: loss %.6f, on the CPU %.6f\n", i + 1, static_cast<double>(got[i]),
                static_cast<double>(want[i]));
    EXPECT_NEAR(got[i], want[i], check.tolerance * want[i]);
  }
  EXPECT_LT(want.back(), want.front());
  EXPECT_EQ(card.report(), "");
}

}  // namespace gangway
