// Plays clients under faults from a number of seeds (chaos.h); then changes what the processes say
// to one another, one thing at a time, which some seed must find.
#include "tests/sim/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/error.h"
#include "runtime/os/shared_segment.h"
#include "tests/sim/meddling.h"
#include "tests/support/error_of.h"
#include "tests/support/net/expect_found.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

TEST(ChaosTest, NothingIsLostRepeatedOrLeakedWhateverGoesWrong) {
  const uint64_t first = tests::test_seed();
  int runs = 0, done = 0, charged = 0, meetings = 0;
  std::set<FaultKind> faults;
  for (uint64_t seed = first; seed < first + GW_CHAOS_SEEDS; ++seed) {
    const ChaosReport report = chaos(seed);
    runs += report.runs;
    done += report.done;
    charged += report.charged;
    meetings += report.meetings;
    faults.insert(report.faults.begin(), report.faults.end());
    for (const std::string& problem : report.problems)
      ADD_FAILURE() << "seed " << seed << ", " << report.scene << problem;
    if (!report.problems.empty()) return;
  }
  // Most runs must get through, otherwise the test checks nothing.
  EXPECT_GT(done, runs / 5) << runs;
  EXPECT_LT(done, runs);
  EXPECT_EQ(faults.size(), size_t{kFaultKinds}) << "a kind of fault never happened";
  EXPECT_GT(charged, GW_CHAOS_SEEDS / 4) << "logs of charges are empty";
  EXPECT_GT(meetings, done / 2) << "logs of devices are empty";
}

TEST(ChaosTest, ASeedRepeatsExactly) {
  const uint64_t seed = tests::test_seed();
  EXPECT_EQ(chaos(seed).replay_hash, chaos(seed).replay_hash);
  EXPECT_NE(chaos(seed).replay_hash, chaos(seed + 1).replay_hash);
}

void expect_found(const NewMeddler& meddler, const Matcher<const std::string&>& problem,
                  ChaosScene scene = ChaosScene::kAny,
                  const Matcher<const std::string&>& passed_over = testing::Not(testing::_)) {
  const auto play = [scene](uint64_t seed, const NewMeddler& between) {
    return chaos(seed, between, scene);
  };
  gangway::expect_found(300, meddler, problem, play, passed_over);
}

TEST(ChaosTest, AMachineWithTooLittleMemoryEndsTheTestAndIsNoFaultOfTheCluster) {
  std::vector<SharedSegment> segments;
  const Error error = error_of([&] {
    while (true) segments.push_back(SharedSegment::create(size_t{1} << 46));  // Exceeds memory.
  });
  EXPECT_EQ(error_of([&] { require_machine(error.what()); }).kind(), ErrorKind::kOverloaded);
  require_machine("put: no memory for input \"x\"");
}

TEST(MeddledChaosTest, APrepareThatIsLeftOutIsFound) {
  expect_found(leaves_out_a_prepare, HasSubstr(" ended: "));
}

TEST(MeddledChaosTest, AnOutputOfAnotherValueIsFound) {
  expect_found(changes_a_second_output, HasSubstr("output told1: expected "));
}

TEST(MeddledChaosTest, MemoryOfAPlanThatStaysIsFound) {
  expect_found(keeps_plans, HasSubstr(" still holds "));
}

TEST(MeddledChaosTest, ARunThatStaysWithTheControllerIsFound) {
  // A client may also wait for the run for ever.
  expect_found(hides_ends_of_late_runs, HasSubstr("the controller still counts "), ChaosScene::kAny,
               HasSubstr("passed its time limit"));
}

TEST(MeddledChaosTest, TheErrorOfOneProgramsRunThatAnotherOneGetsIsFound) {
  expect_found(takes_one_run_for_another, HasSubstr("no fault explains: "),
               ChaosScene::kHostIsKilled);
}

TEST(ChaosTest, AKilledHostHarmsNobodyElse) {
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + 40; ++seed)
    EXPECT_THAT(chaos(seed, nullptr, ChaosScene::kHostIsKilled).problems, IsEmpty());
}

TEST(MeddledChaosTest, AcknowledgementsThatNeverComeAreFound) {
  expect_found(hides_acknowledgements, HasSubstr("reads nothing any more"));
}

TEST(MeddledChaosTest, TwoTicketsThatAreSwappedAreFound) {
  expect_found(swaps_tickets, HasSubstr("expected a ticket above "));
}

// Its client was told that the run was cancelled, since its turn had not come.
TEST(MeddledChaosTest, ARunThatIsDoneThoughItsCancelCameBeforeIsFound) {
  expect_found(holds_prepares_back, HasSubstr("output told0: expected "));
}

TEST(MeddledChaosTest, AnArrayThatIsFreedBeforeARunReadsItIsFound) {
  expect_found(frees_before_a_read, HasSubstr(" is not here"));
}

TEST(ChaosTest, AChargeThatIsCountedTwiceIsFound) {
  ChargeLog log;
  log.took(SessionId(1), 500);
  log.charged(SessionId(1), 500);
  EXPECT_THAT(wrong_charges(log), IsEmpty());
  log.charged(SessionId(1), 500);
  EXPECT_THAT(wrong_charges(log),
              ElementsAre(HasSubstr("was charged 1000 ns for turns that took 500 ns")));
}

}  // namespace
}  // namespace gangway
