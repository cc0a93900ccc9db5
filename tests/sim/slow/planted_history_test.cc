// Defects that once took back what clients had been told, planted one at a time: some seed finds
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/history/scene.h"
#include "tests/support/seed.h"

namespace gangway::history {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One of so many seeds finds it, as a problem that says this, which it does not have without it.
void expect_found(const PlantedControllerBugs& planted, const char* problem) {
  constexpr int kSeeds = 500;
  const uint64_t first = tests::test_seed();
  for (int i = 0; i < kSeeds; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    const SceneReport report = play(seed, drawn_today(), planted);
    if (report.problems.empty()) continue;
    std::fprintf(stderr, "found by seed %d of %d\n", i + 1, kSeeds);
    EXPECT_THAT(report.problems, Contains(HasSubstr(problem)));
    EXPECT_THAT(play(seed, drawn_today()).problems, IsEmpty());
    return;
  }
  ADD_FAILURE() << "no seed finds it";
}

TEST(PlantedDefectTest, ALostHostThatWritesIntoMemoryWhichOthersHaveByThen) {
  expect_found({.settles_lost_copies = true}, "were handed to transfer ");
}

TEST(PlantedDefectTest, ATimeLimitThatBeginsAgainWhereAToldRunIsRunOnceMore) {
  expect_found({.limits_told_runs_again = true},
               "a run that had ended well did not when it was run again");
}

TEST(PlantedDefectTest, AProgramThatCameBackBehindARestartAndIsNotKnownToRecovery) {
  expect_found({.forgets_resumed_programs = true}, "ended: ");
}

TEST(PlantedDefectTest, ARecordOfASliceThatHasShrunkBesideTheProgramAsItWas) {
  expect_found({.records_shrunk_slices = true}, "ended: ");
}

TEST(PlantedDefectTest, ACheckpointThatLeavesOutAStateWhichWasPlacedWhileItWaited) {
  expect_found({.keeps_layout_of_waiting_checkpoints = true}, "there is no tensor ");
}

TEST(PlantedDefectTest, AStateThatIsExpectedInACheckpointWhichIsOlder) {
  expect_found({.expects_new_states_in_checkpoints = true}, "ended: ");
}

TEST(PlantedDefectTest, AStateThatIsToBeRestoredAfterItWasReleased) {
  expect_found({.restores_released_states = true}, "ended: ");
}

}  // namespace
}  // namespace gangway::history
