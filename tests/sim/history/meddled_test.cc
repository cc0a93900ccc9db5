// Changes what clients are told; the history of some seed must show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/history/scene.h"
#include "tests/sim/meddling.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::Matches;

// Expects that some seed has a problem of this kind with the meddler, and has none without it.
void expect_found(const NewMeddler& meddler, const Matcher<const std::string&>& problem) {
  constexpr uint64_t kSeeds = 100;
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    if (!Matches(Contains(problem))(play(seed, meddler).problems)) continue;
    EXPECT_THAT(play(seed).problems, IsEmpty());
    return;
  }
  ADD_FAILURE() << "no seed finds it";
}

TEST(MeddledHistoryTest, OutputsThatAreThoseOfTheRunBeforeAreFound) {
  expect_found(tells_outputs_of_the_run_before, HasSubstr(" does not fit: "));
}

TEST(MeddledHistoryTest, AProgramThatEndsWithoutAReasonIsFound) {
  expect_found(tells_that_a_run_has_failed, HasSubstr(": ended: "));
}

}  // namespace
}  // namespace gangway::history
