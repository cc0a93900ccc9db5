// Tests of tests/sim/recovery/recovery_test.cc with many more seeds.
#include <gtest/gtest.h>

#include "tests/sim/recovery/recovery_case.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(RecoveryTest, ManyMoreDeathsChangeNoBit) {
  sim::RecoveryCase of{.hosts = 5, .deaths = 3, .within_ms = 5, .evaluates = true};
  const std::vector<double> alone = sim::undisturbed_losses(of);
  for (uint64_t seed = tests::test_seed(), last = seed + 500; seed < last; ++seed) {
    of.seed = seed;
    const sim::Recovered result = sim::recover(of);
    EXPECT_EQ(result.losses, alone) << "seed " << seed;
    EXPECT_EQ(result.wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace gangway
