// Tests of chaos_test.cc with many more seeds.
#include <gtest/gtest.h>

#include "tests/sim/chaos.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(SeedsTest, NothingIsLostRepeatedOrLeakedWhateverGoesWrong) {
  const uint64_t first = tests::test_seed() + 1'000'000;
  for (uint64_t seed = first; seed < first + 4000; ++seed) {
    const ChaosReport report = chaos(seed);
    for (const std::string& problem : report.problems)
      ADD_FAILURE() << "seed " << seed << ", " << report.scene << problem;
    if (!report.problems.empty()) return;
  }
}

}  // namespace
}  // namespace gangway
