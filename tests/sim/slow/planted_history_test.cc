// Plants, one at a time, defects that once took back results that clients had got; some seed must
// find each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/history/scene.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

// A result that a client got is lost, or the program has ended, or never goes on.
Matcher<const std::string&> is_lost_or_ends() {
  return AnyOf(HasSubstr(" does not fit: "), HasSubstr(": ended: "),
               HasSubstr("passed its time limit of "));
}

// Expects that one of kSeedsMax seeds has a problem with this text with the defect, and does not
// have it without the defect.
void expect_found(const PlantedControllerBugs& planted,
                  const Matcher<const std::string&>& problem) {
  constexpr int kSeedsMax = 500;
  const uint64_t first = tests::test_seed();
  for (int i = 0; i < kSeedsMax; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    const SceneReport report = play(seed, planted);
    if (report.problems.empty()) continue;
    std::fprintf(stderr, "found by seed %d of %d\n", i + 1, kSeedsMax);
    EXPECT_THAT(report.problems, Contains(problem));
    EXPECT_THAT(play(seed).problems, IsEmpty());
    return;
  }
  ADD_FAILURE() << "no seed finds it";
}

TEST(PlantedDefectTest, ALostHostThatWritesIntoMemoryWhichOthersHaveByThen) {
  expect_found({.settles_lost_copies = true}, HasSubstr("were handed to transfer "));
}

TEST(PlantedDefectTest, ATimeLimitThatBeginsAgainWhereAToldRunIsRunOnceMore) {
  expect_found({.limits_told_runs_again = true}, is_lost_or_ends());
}

TEST(PlantedDefectTest, AProgramThatCameBackBehindARestartAndIsNotKnownToRecovery) {
  expect_found({.forgets_resumed_programs = true}, is_lost_or_ends());
}

TEST(PlantedDefectTest, ARecordOfASliceThatHasShrunkBesideTheProgramAsItWas) {
  expect_found({.records_shrunk_slices = true}, is_lost_or_ends());
}

TEST(PlantedDefectTest, ACheckpointThatLeavesOutAStateWhichWasPlacedWhileItWaited) {
  expect_found({.keeps_layout_of_waiting_checkpoints = true}, is_lost_or_ends());
}

TEST(PlantedDefectTest, AStateThatIsExpectedInACheckpointWhichIsOlder) {
  expect_found({.expects_new_states_in_checkpoints = true}, is_lost_or_ends());
}

TEST(PlantedDefectTest, AStateThatIsToBeRestoredAfterItWasReleased) {
  expect_found({.restores_released_states = true}, is_lost_or_ends());
}

}  // namespace
}  // namespace gangway::history
