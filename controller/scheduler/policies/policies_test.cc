#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "controller/scheduler/policies/fair_share.h"
#include "controller/scheduler/policies/first_come.h"
#include "controller/scheduler/policies/strict_priority.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

const Policy::May kAny = [](GangId) { return true; };

// Programs whose gangs always want one more turn, on devices that are one group or several.
class Contest {
 public:
  explicit Contest(Policy& policy) : policy_(policy) {}

  void join(uint64_t program, const Share& share, std::vector<GroupId> groups = {GroupId(1)},
            bool idled = true) {
    policy_.set_share(SessionId(program), share);
    groups_[program] = std::move(groups);
    wait(program, idled);
  }
  void leave(uint64_t program) {
    policy_.remove(gang(program));
    groups_.erase(program);
  }
  // The program can't go for now; wait() lets it go again.
  void pause(uint64_t program) { policy_.remove(gang(program)); }
  void wait(uint64_t program, bool idled = false) {
    policy_.add({.gang = gang(program),
                 .program = SessionId(program),
                 .groups = groups_.at(program),
                 .waits_since_ns = now_ns,
                 .idled = idled});
  }
  // Gives the group's next turn, which takes `ns`, and returns its program.
  uint64_t turn(int64_t ns = 1000, GroupId group = GroupId(1)) {
    const auto next = policy_.next(group, kAny);
    if (!next) return 0;
    const uint64_t program = next->run.value;
    policy_.charge(SessionId(program), groups_.at(program), ns);
    now_ns += ns;
    got[program] += ns;
    wait(program);
    return program;
  }

  int64_t now_ns = 0;
  std::map<uint64_t, int64_t> got;

 private:
  static GangId gang(uint64_t program) { return {RunId(program), 0}; }

  Policy& policy_;
  std::map<uint64_t, std::vector<GroupId>> groups_;
};

TEST(Policies, AreChosenByName) {
  EXPECT_EQ(policy_names(), (std::vector<std::string>{"fair", "fifo", "priority"}));
  for (const std::string& name : policy_names()) EXPECT_NE(make_policy(name), nullptr);
  try {
    make_policy("lottery");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("lottery"));
  }
}

TEST(Policies, AWeightOrPriorityBeyondItsBoundsIsRefused) {
  require_share("client", {.weight = 8, .priority = -3});
  EXPECT_THROW(require_share("client", {.weight = 0}), Error);
  EXPECT_THROW(require_share("client", {.weight = 1e9}), Error);
  EXPECT_THROW(require_share("client", {.weight = std::nan("")}), Error);
  EXPECT_THROW(require_share("client", {.priority = 1'000'000}), Error);
}

TEST(Policies, AGangThatMayNotGoIsPassedOverAndKeepsItsTurn) {
  for (const std::string& name : policy_names()) {
    const auto policy = make_policy(name);
    Contest contest(*policy);
    contest.join(1, {});
    contest.join(2, {});
    const auto next = policy->next(GroupId(1), [](GangId gang) { return gang.run != RunId(1); });
    ASSERT_TRUE(next.has_value()) << name;
    EXPECT_EQ(next->run, RunId(2)) << name;
    EXPECT_EQ(contest.turn(), 1u) << name;
  }
}

TEST(FirstCome, TheRunThatWasSubmittedFirstGoesFirstWhateverItsShare) {
  FirstCome policy;
  Contest contest(policy);
  contest.join(2, {.weight = 100, .priority = 5});
  contest.join(1, {});
  EXPECT_EQ(contest.turn(), 1u);
  EXPECT_EQ(contest.turn(), 1u) << "up to its end";
  contest.leave(1);
  EXPECT_EQ(contest.turn(), 2u);
}

// Two programs of equal weight on one group.
class FairShareOfTwo : public testing::Test {
 protected:
  FairShareOfTwo() {
    contest_.join(1, {});
    contest_.join(2, {});
  }
  FairShare policy_;
  Contest contest_{policy_};
};

TEST_F(FairShareOfTwo, TimeCountsAndNotTurns) {
  for (int i = 0; i < 1000; ++i) {
    const uint64_t program = contest_.turn(100);
    if (program == 1) policy_.charge(SessionId(1), std::vector{GroupId(1)}, 900);  // Measured.
  }
  EXPECT_NEAR(static_cast<double>(contest_.got[2]) / static_cast<double>(contest_.got[1]), 10, 0.2);
}

TEST_F(FairShareOfTwo, AProgramThatIdledStartsAtTheCurrentPassWithoutCredit) {
  contest_.leave(2);
  for (int i = 0; i < 1000; ++i) contest_.turn();
  contest_.join(2, {});
  contest_.got.clear();
  for (int i = 0; i < 100; ++i) contest_.turn();
  EXPECT_NEAR(static_cast<double>(contest_.got[2]), 50'000, 1000);
}

TEST_F(FairShareOfTwo, AProgramThatUsedMoreThanItsShareKeepsThatDebtThroughAPause) {
  contest_.turn(1000);
  contest_.turn(1000);
  policy_.charge(SessionId(1), std::vector{GroupId(1)}, 20'000);
  contest_.leave(1);
  contest_.turn(1000);
  contest_.join(1, {});
  contest_.got.clear();
  for (int i = 0; i < 19; ++i) EXPECT_EQ(contest_.turn(1000), 2u) << i;
}

TEST_F(FairShareOfTwo, AProgramWhoseInputIsLateGetsBackTwoMillisecondsAtMost) {
  contest_.turn();
  contest_.turn();
  contest_.pause(1);
  for (int i = 0; i < 10; ++i) contest_.turn(1'000'000);
  contest_.wait(1);
  contest_.got.clear();
  while (contest_.turn(100'000) == 1) {
  }
  EXPECT_NEAR(static_cast<double>(contest_.got[1]), 2'000'000, 1'100'000);
}

// Program 1 needs both groups. It is alone in neither, and gets what the fuller one leaves it.
TEST(FairShare, AGangOverSeveralGroupsIsNotServedBeyondItsShareInAnyOfThem) {
  const GroupId a(1), b(2);
  FairShare policy;
  Contest contest(policy);
  contest.join(1, {}, {a, b});
  contest.join(2, {}, {a});
  for (uint64_t program = 3; program <= 5; ++program) contest.join(program, {}, {b});
  int64_t a_ns = 0, b_ns = 0;
  while (a_ns < 1'000'000) {  // The group with less granted is served next.
    const GroupId group = a_ns <= b_ns ? a : b;
    const uint64_t program = contest.turn(1000, group);
    if (program <= 2) a_ns += 1000;
    if (program != 2) b_ns += 1000;
  }
  EXPECT_NEAR(static_cast<double>(contest.got[1]), 250'000, 15'000);
  EXPECT_NEAR(static_cast<double>(contest.got[2]), 750'000, 15'000);
  EXPECT_NEAR(static_cast<double>(contest.got[3]), 250'000, 15'000);
}

TEST_F(FairShareOfTwo, AGroupThatIsSplitKeepsItsPast) {
  contest_.turn();
  contest_.turn();
  policy_.charge(SessionId(1), std::vector{GroupId(1)}, 50'000);
  contest_.leave(1);
  contest_.leave(2);
  policy_.split(GroupId(1), GroupId(2));
  policy_.erase(GroupId(1));
  contest_.join(1, {}, {GroupId(2)}, false);
  contest_.join(2, {}, {GroupId(2)}, false);
  for (int i = 0; i < 49; ++i) EXPECT_EQ(contest_.turn(1000, GroupId(2)), 2u) << i;
}

TEST(StrictPriority, TheHigherPriorityGoesFirst) {
  StrictPriority policy;
  Contest contest(policy);
  contest.join(1, {.priority = 0});
  contest.join(2, {.priority = 10});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(contest.turn(), 2u);
}

TEST(StrictPriority, EqualsTakeTurns) {
  StrictPriority policy;
  Contest contest(policy);
  contest.join(1, {.priority = 3});
  contest.join(2, {.priority = 3});
  for (int i = 0; i < 100; ++i) contest.turn();
  EXPECT_EQ(contest.got[1], contest.got[2]);
}

TEST(StrictPriority, WaitingProgramsAgeSoThatNoneStarves) {
  StrictPriority policy;
  Contest contest(policy);
  contest.join(1, {.priority = 0});
  contest.join(2, {.priority = 10});
  int64_t last_ns = 0, longest_ns = 0;
  while (contest.now_ns < 10'000'000'000) {
    if (contest.turn(1'000'000) != 1) continue;
    longest_ns = std::max(longest_ns, contest.now_ns - last_ns);
    last_ns = contest.now_ns;
  }
  EXPECT_GT(last_ns, 8'000'000'000);
  EXPECT_LE(longest_ns, 10 * StrictPriority::kAgeNs + 3'000'000);
  EXPECT_GT(contest.got[2], 50 * contest.got[1]) << "it is strict all the same";
}

TEST(StrictPriority, AChangeOfPriorityHoldsForProgramsThatWaitAlready) {
  StrictPriority policy;
  Contest contest(policy);
  contest.join(1, {.priority = 0});
  contest.join(2, {.priority = 10});
  EXPECT_EQ(contest.turn(), 2u);
  policy.set_share(SessionId(1), {.priority = 20});
  EXPECT_EQ(contest.turn(), 1u);
}

}  // namespace
}  // namespace gangway
