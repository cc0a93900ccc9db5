// Tests that a simulation's checks notice a meddler.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/net/frame_meddler.h"
#include "tests/support/seed.h"

namespace gangway {

// Expects that the first of so many seeds that has a problem with the meddler has one of this kind,
// and has none without it. Problems that match `passed_over` do not count. play(seed, meddler)
// plays a seed, without a meddler if that is null, and returns a report with its `problems`.
template <class Play>
void expect_found(
    uint64_t seeds, const std::function<FrameMeddler()>& meddler,
    const testing::Matcher<const std::string&>& problem, const Play& play,
    const testing::Matcher<const std::string&>& passed_over = testing::Not(testing::_)) {
  using testing::Contains, testing::Each, testing::HasSubstr, testing::Not;
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto problems = play(seed, meddler).problems;
    // The meddler itself has not failed (FrameMeddler).
    ASSERT_THAT(problems, Not(Contains(HasSubstr("a write ")))) << "seed " << seed;
    ASSERT_THAT(problems, Not(Contains(HasSubstr("frames are written in their order"))));
    if (testing::Matches(Each(passed_over))(problems)) continue;
    EXPECT_THAT(problems, Contains(problem)) << "seed " << seed;
    EXPECT_THAT(play(seed, nullptr).problems, testing::IsEmpty()) << "seed " << seed;
    return;
  }
  ADD_FAILURE() << "no seed finds it";
}

}  // namespace gangway
