#include "controller/programs/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunFrame run(uint64_t name) {
  return {.plan = PlanId(1), .run = RunId(name), .outputs = {ArrayId(name + 1)}};
}

// Ends a run well, reported to its client. `version` 0: it commits nothing.
void end(RunLog& log, uint64_t name, uint64_t version) {
  log.find(RunId(name))->version = StateVersion(version);
  log.find(RunId(name))->is_reported = true;
}

std::vector<uint64_t> names_of(const RunLog& log) {
  std::vector<uint64_t> names;
  for (const RunLog::Entry& entry : log.entries()) names.push_back(entry.frame.run.value);
  return names;
}

TEST(RunLogTest, ACheckpointDropsTheRunsThatItHolds) {
  RunLog log;
  for (const uint64_t name : {10, 20, 30, 40}) EXPECT_TRUE(log.add(run(name)));
  end(log, 10, 1);
  end(log, 30, 2);  // Run 20 has made no version.
  log.written(StateVersion(1));
  EXPECT_THAT(names_of(log), ElementsAre(20, 30, 40));
  log.written(StateVersion(2));
  EXPECT_THAT(names_of(log), ElementsAre(40));
  EXPECT_EQ(log.base(), StateVersion(2));
  EXPECT_EQ(log.find(RunId(10)), nullptr);
  EXPECT_FALSE(log.why_not());
}

TEST(RunLogTest, TheLogStepsBackToTheCheckpointBeforeTheNewest) {
  RunLog log;
  for (const uint64_t name : {10, 20, 30, 40}) EXPECT_TRUE(log.add(run(name)));
  for (const uint64_t version : {1, 2, 3}) end(log, 10 * version, version);
  log.written(StateVersion(1));
  log.written(StateVersion(3));
  EXPECT_THAT(names_of(log), ElementsAre(40));
  EXPECT_TRUE(log.step_back());
  EXPECT_THAT(names_of(log), ElementsAre(20, 30, 40));
  EXPECT_EQ(log.base(), StateVersion(1));
  EXPECT_NE(log.find(RunId(20)), nullptr);
  EXPECT_FALSE(log.step_back()) << "what came before is forgotten";
  log.written(StateVersion(3));
  EXPECT_THAT(names_of(log), ElementsAre(40));
  EXPECT_TRUE(log.step_back());
}

TEST(RunLogTest, ARunThatEndsBehindTheCheckpointIsNotReportedTwice) {
  RunLog log;
  for (const uint64_t name : {10, 20, 30}) EXPECT_TRUE(log.add(run(name)));
  end(log, 10, 0);
  end(log, 30, 1);
  log.find(RunId(20))->is_under_way = true;  // Run 20 commits nothing.
  EXPECT_THAT(log.written(StateVersion(1)), IsEmpty());
  EXPECT_EQ(log.find(RunId(20)), nullptr) << "whatever its end is, its client is told";
  EXPECT_TRUE(log.step_back());
  EXPECT_THAT(names_of(log), ElementsAre(10, 30));
}

TEST(RunLogTest, ARunThatALostHostEndedIsReportedWhereItsStatesArePast) {
  RunLog log;
  for (const uint64_t name : {10, 20, 30, 40}) {
    EXPECT_TRUE(log.add(run(name)));
    log.find(RunId(name))->is_under_way = true;
  }
  end(log, 10, 1);
  log.find(RunId(20))->is_under_way = false;  // Run 20 failed, and would be run again.
  end(log, 40, 2);
  EXPECT_THAT(log.written(StateVersion(2)), ElementsAre(RunId(20))) << "30 has yet to end";
  EXPECT_THAT(names_of(log), IsEmpty());
}

TEST(RunLogTest, AProgramThatGoesOnFromACheckpointDoesNotStepBackToItsFirstValues) {
  RunLog log({}, StateVersion(500));
  EXPECT_EQ(log.base(), StateVersion(500));
  EXPECT_FALSE(log.step_back()) << "nobody has logged what led to version 500";
  EXPECT_EQ(log.base(), StateVersion(500));
  EXPECT_TRUE(log.add(run(10)));
  end(log, 10, 510);
  log.written(StateVersion(510));
  EXPECT_TRUE(log.step_back());
  EXPECT_EQ(log.base(), StateVersion(500));
  EXPECT_FALSE(log.step_back());
}

TEST(RunLogTest, TheLogDoesNotStepBackBehindAWriteThatNoRunCanRepeat) {
  RunLog log;
  EXPECT_TRUE(log.add(run(10)));
  end(log, 10, 2);
  log.spoil(StateVersion(2), "somebody wrote");
  log.written(StateVersion(2));
  EXPECT_FALSE(log.step_back());
}

TEST(RunLogTest, TheLogKeepsFewBytesToStepBackOver) {
  RunLog log;
  RunFrame large = run(1);
  large.arguments = {{.input = 0, .bytes = std::vector<std::byte>(RunLog::kBeforeBytesMax)}};
  EXPECT_TRUE(log.add(large));
  end(log, 1, 1);
  log.written(StateVersion(1));
  EXPECT_FALSE(log.step_back());
}

TEST(RunLogTest, AClientsWritePreventsRecoveryUntilACheckpointHoldsIt) {
  RunLog log;
  log.spoil(StateVersion(5), "somebody wrote");
  log.written(StateVersion(4));
  EXPECT_EQ(log.why_not(), "somebody wrote");
  log.written(StateVersion(5));
  EXPECT_FALSE(log.why_not());
}

TEST(RunLogTest, AnArrayThatNoRunOfTheLogHasMadeIsLost) {
  RunLog log;
  EXPECT_TRUE(log.add(run(10)));
  RunFrame takes = run(20);
  takes.arguments = {{.input = 0, .array = ArrayId(11)}};
  EXPECT_TRUE(log.add(takes));
  EXPECT_FALSE(log.why_not());
  log.remove(RunId(10));
  ASSERT_TRUE(log.why_not());
  EXPECT_THAT(*log.why_not(), HasSubstr("took an array that no such run has made"));
}

TEST(RunLogTest, TheBytesOfTheLogAreBounded) {
  RunLog log;
  RunFrame large = run(1);
  large.arguments = {{.input = 0, .bytes = std::vector<std::byte>(RunLog::kBytesMax / 2)}};
  EXPECT_TRUE(log.add(large));
  large.run = RunId(2);
  EXPECT_FALSE(log.add(large));
  EXPECT_THAT(names_of(log), ElementsAre(1));
  log.clear();
  EXPECT_TRUE(log.add(large));
}

TEST(RunLogTest, HoldsNoMoreThanItsOwnerMayAndGivesItBack) {
  OwnerUse use({10'000, 1, 1, 1});
  const auto used = [&] { return use.used("ann", OwnerResource::kMemory); };
  RunFrame large = run(1);
  large.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4000)}};
  {
    RunLog log(use.hold("ann", OwnerResource::kMemory)),
        other(use.hold("ann", OwnerResource::kMemory));
    EXPECT_TRUE(log.add(large));
    EXPECT_TRUE(other.add(large));
    EXPECT_GT(used(), 8000u);
    large.run = RunId(2);
    EXPECT_FALSE(log.add(large)) << "though this one is nearly empty";
    other.clear();
    EXPECT_TRUE(log.add(large));
    log.remove(RunId(1));
    EXPECT_GT(used(), 4000u);
    EXPECT_LT(used(), 8000u);
  }
  EXPECT_EQ(used(), 0u);
}

}  // namespace
}  // namespace gangway
