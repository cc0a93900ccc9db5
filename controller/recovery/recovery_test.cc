// What becomes of a program's runs when it is brought back, with hosts that end them as a test
// says.
#include "controller/recovery/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recovery/kept_program.h"

namespace gangway::recovery_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// It never comes as far as a checkpoint.
class RecoveryTest : public KeptProgramTest {
 protected:
  RecoveryTest() { keep(1'000'000); }
};

TEST_F(RecoveryTest, RunsThatWereToldHaveNoTimeLimitWhenTheyAreRunAgain) {
  constexpr int kRuns = 5;
  for (int i = 0; i < kRuns; ++i) {
    submit(20);
    finish();
  }
  ASSERT_THAT(client_.ended, SizeIs(kRuns));
  lose_host();
  EXPECT_THAT(prepared(), SizeIs(kRuns));
  for (int i = 0; i < kRuns; ++i) {
    pass_ms(19);
    finish();
  }
  EXPECT_THAT(executors_[host()].all<CancelFrame>(), IsEmpty());
  EXPECT_EQ(version(), uint64_t{kRuns});
  EXPECT_THAT(told(), Contains(HasSubstr("the program goes on on")));
  EXPECT_THAT(client_.ended, SizeIs(kRuns)) << "none is told again";
}

TEST_F(RecoveryTest, ARunThatWasNotToldHasItsTimeFromWhereItsTurnComes) {
  for (int i = 0; i < 2; ++i) {
    submit(20);
    finish();
  }
  submit(20);
  lose_host();
  EXPECT_THAT(prepared(), SizeIs(2));
  pass_ms(50);
  finish();
  finish();
  EXPECT_THAT(prepared(), SizeIs(1));
  pass_ms(19);
  EXPECT_THAT(executors_[host()].all<CancelFrame>(), IsEmpty());
  pass_ms(2);
  EXPECT_THAT(executors_[host()].all<CancelFrame>(), SizeIs(1));
  finish();
  EXPECT_EQ(version(), 3u);
}

TEST_F(RecoveryTest, ARunThatWasToldCantBeCancelledAnyMore) {
  const RunId run = submit();
  finish();
  lose_host();
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kCancelled, "by its user")});
  EXPECT_THAT(executors_[host()].all<CancelFrame>(), IsEmpty());
  finish();
  EXPECT_EQ(version(), 1u);
}

TEST_F(RecoveryTest, AProgramEndsRatherThanGoOnWithoutARunThatWasTold) {
  for (int i = 0; i < 2; ++i) {
    submit();
    finish();
  }
  submit();
  lose_host();
  finish();
  finish(Error(ErrorKind::kInvalid, "the loss is not finite"));
  EXPECT_THAT(told(), Contains(HasSubstr("can't be brought back: a run that had ended well did not "
                                         "when it was run again: the loss is not finite")));
  EXPECT_THAT(told(), Not(Contains(HasSubstr("the program goes on on"))));
  ASSERT_THAT(client_.ended, SizeIs(3));
  ASSERT_TRUE(client_.ended[2].error);
  EXPECT_EQ(client_.ended[2].error->kind(), ErrorKind::kUnavailable);
  submit();
  ASSERT_THAT(client_.ended, SizeIs(4));
  EXPECT_TRUE(client_.ended[3].error);
}

TEST_F(RecoveryTest, ARunThatFailsAgainForALostHostIsRunOnceMore) {
  run_to_its_end();
  lose_host();
  finish(Error(ErrorKind::kUnavailable, "a peer is gone"));
  EXPECT_THAT(prepared(), SizeIs(1));
  finish();
  EXPECT_EQ(version(), 1u);
  EXPECT_THAT(told(), Contains(HasSubstr("the program goes on on")));
  EXPECT_THAT(client_.ended, SizeIs(1));
}

TEST_F(RecoveryTest, ARunOfATakenNameIsRefusedAndTheFirstOneGoesOn) {
  const RunId run = submit();
  controller_.on_message(session_, RunFrame{.plan = plan_, .run = run});
  ASSERT_THAT(client_.ended, SizeIs(1));
  ASSERT_TRUE(client_.ended[0].error);
  EXPECT_THAT(client_.ended[0].error->message(), HasSubstr("the name is taken"));
  lose_host();
  ASSERT_THAT(prepared(), SizeIs(1)) << "the first one is run again";
  finish();
  EXPECT_EQ(version(), 1u);
  ASSERT_THAT(client_.ended, SizeIs(2));
  EXPECT_FALSE(client_.ended[1].error);
}

// A second host is lost before the third run has been submitted again.
TEST_F(RecoveryTest, AnArrayThatIsMadeAgainLateStaysItsClients) {
  for (int i = 0; i < 2; ++i) {
    submit();
    finish();
  }
  submit();
  lose_host();
  finish();
  lose_host();
  for (int i = 0; i < 3; ++i) finish();
  EXPECT_EQ(version(), 3u);
  EXPECT_EQ(controller_.counts().arrays, 3u);
}

}  // namespace
}  // namespace gangway::recovery_test
