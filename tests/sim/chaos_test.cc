// Plays clients under faults from a number of seeds (chaos.h); then plants bugs one at a time, each
// of which some seed must find.
#include "tests/sim/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/base/error.h"
#include "runtime/os/shared_segment.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

TEST(ChaosTest, NothingIsLostRepeatedOrLeakedWhateverGoesWrong) {
  const uint64_t first = tests::test_seed();
  int runs = 0, done = 0;
  for (uint64_t seed = first; seed < first + GW_CHAOS_SEEDS; ++seed) {
    const ChaosReport report = chaos(seed);
    runs += report.runs;
    done += report.done;
    for (const std::string& problem : report.problems)
      ADD_FAILURE() << "seed " << seed << ", " << report.scene << problem;
    if (!report.problems.empty()) return;
  }
  // Most runs must get through, otherwise the test checks nothing.
  EXPECT_GT(done, runs / 5) << runs;
  EXPECT_LT(done, runs);
}

TEST(ChaosTest, ASeedRepeatsExactly) {
  const uint64_t seed = tests::test_seed();
  EXPECT_EQ(chaos(seed).replay_hash, chaos(seed).replay_hash);
  EXPECT_NE(chaos(seed).replay_hash, chaos(seed + 1).replay_hash);
}

// Expects that some seed has a problem of this kind with the bug, and does not have it without the
// bug.
void expect_found(const PlantedBugs& planted, const Matcher<const std::string&>& problem,
                  ChaosScene scene = ChaosScene::kAny) {
  constexpr int kSeeds = 300;
  const uint64_t first = tests::test_seed();
  for (int i = 0; i < kSeeds; ++i) {
    const ChaosReport report = chaos(first + static_cast<uint64_t>(i), planted, scene);
    if (report.problems.empty()) continue;
    std::fprintf(stderr, "found by seed %d of %d: %s\n", i + 1, kSeeds, report.problems[0].c_str());
    EXPECT_THAT(report.problems, Contains(problem)) << report.scene;
    EXPECT_THAT(chaos(first + static_cast<uint64_t>(i), {}, scene).problems, IsEmpty());
    return;
  }
  ADD_FAILURE() << "no seed finds it";
}

TEST(PlantedBugTest, CollectivesWhoseTicketsAreComparedWithinALaneOnly) {
  expect_found({.orders_collectives_by_lane = true}, HasSubstr("the order of tickets is broken: "));
}

TEST(ChaosTest, AMachineWithTooLittleMemoryEndsTheTestAndIsNoFaultOfTheCluster) {
  std::vector<SharedSegment> segments;
  const Error error = error_of([&] {
    while (true) segments.push_back(SharedSegment::create(size_t{1} << 46));  // Exceeds memory.
  });
  EXPECT_EQ(error_of([&] { require_machine(error.what()); }).kind(), ErrorKind::kOverloaded);
  require_machine("put: no memory for input \"x\"");
}

// The content of the frame that was left out is awaited without end, or missed later.
TEST(PlantedBugTest, FramesThatAreSentAgainFromOneTooLateWhereNobodySeesGaps) {
  expect_found(
      {.frames = {.resends_one_too_late = true, .ignores_gaps = true}},
      AnyOf(HasSubstr("no fault explains: "), HasSubstr("simulation: passed its time limit of ")));
}

TEST(PlantedBugTest, CreditThatIsGivenBackAtArrivalInPlaceOfLastUse) {
  expect_found({.transfers = {.credit_at_arrival = true, .one_slot = true}},
               HasSubstr("output told1: expected "));
}

TEST(PlantedBugTest, OneSlotForAllRunsInFlightIsNoBugByItself) {
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + 40; ++seed)
    EXPECT_THAT(chaos(seed, {.transfers = {.one_slot = true}}).problems, IsEmpty());
}

TEST(PlantedBugTest, OutputsOfARunThatLosesAHostBeforeItsFirstGrantThatStay) {
  expect_found({.controller = {.keeps_outputs_of_lost_runs = true}},
               HasSubstr("the controller still counts "));
}

TEST(PlantedBugTest, ACompletionOfAnEarlierRunThatIsTakenForThatOfAnother) {
  expect_found({.controller = {.reuses_run_ids = true}}, HasSubstr("no fault explains: "),
               ChaosScene::kHostIsKilled);
}

TEST(PlantedBugTest, AKilledHostHarmsNobodyElse) {
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + 40; ++seed)
    EXPECT_THAT(chaos(seed, {}, ChaosScene::kHostIsKilled).problems, IsEmpty());
}

TEST(PlantedBugTest, AcknowledgementsThatNeverCome) {
  expect_found({.frames = {.acknowledges_nothing = true}}, HasSubstr("reads nothing any more"));
}

TEST(PlantedBugTest, TwoTicketsThatAreSwappedInAGrant) {
  expect_found({.controller = {.swaps_tickets = true}}, HasSubstr("expected a ticket above "));
}

TEST(PlantedBugTest, ACancelThatOvertakesItsPrepare) {
  expect_found({.controller = {.prepares_late = true}}, HasSubstr("output told0: expected "));
}

TEST(PlantedBugTest, AFreeThatOvertakesARead) {
  expect_found({.controller = {.frees_before_reads = true}}, HasSubstr(" is not here"));
}

TEST(PlantedBugTest, AChargeThatIsCountedTwice) {
  expect_found({.controller = {.charges_twice = true}}, HasSubstr(" was charged "));
}

}  // namespace
}  // namespace gangway
