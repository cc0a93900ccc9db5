#include "controller/service/suspensions.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SuspensionsTest : public ControllerTest {
 protected:
  SuspensionsTest() {
    for (FakeExecutor& executor : executor_) {
      executor.need_bytes = 300;
      executor.state_bytes = 100;
    }
  }
  int64_t reserved() { return controller_.hosts().at(hosts_[0]).reserved[0]; }
  // In a fiber, up to where it waits.
  Fiber suspending() {
    Fiber fiber = reactor_->spawn("suspend", [this] {
      try {
        bytes_ = controller_.suspend_program(session_, "ada");
      } catch (const Error& error) {
        failed_ = error;
      }
    });
    reactor_->run_ready();
    return fiber;
  }
  void resume() {
    reactor_->run([&] { controller_.resume_program(session_, "ada"); });
  }

  std::optional<int64_t> bytes_;
  std::optional<Error> failed_;
};

TEST_F(SuspensionsTest, ItWaitsForTheRunsUnderWayAndThenGivesItsMemoryBack) {
  const PlanId plan = compile(session_, 1);
  submit(session_, plan);
  submit(session_, plan);
  EXPECT_EQ(reserved(), 400);
  Fiber fiber = suspending();
  EXPECT_TRUE(executor_[0].moves.empty());
  finish(0, RunId(1));
  reactor_->run_ready();
  EXPECT_TRUE(executor_[0].moves.empty()) << "the other host is not done";
  finish(1, RunId(1));
  reactor_->run_ready();
  fiber.join();
  EXPECT_EQ(bytes_, 200) << "of two hosts";
  ASSERT_EQ(executor_[1].moves.size(), 1u);
  EXPECT_TRUE(executor_[1].moves[0].to_host);
  EXPECT_THAT(executor_[1].moves[0].plans, ElementsAre(plan));
  EXPECT_THAT(executor_[1].moves[0].scopes, ElementsAre(StateScope{slice_.value}));
  // The client holds the output of the run that has ended: 4 bytes, in whole blocks.
  EXPECT_EQ(reserved(), block_bytes(4));
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u) << "the second run waits";
  resume();
  EXPECT_FALSE(executor_[0].moves.back().to_host);
  EXPECT_EQ(reserved(), 400 + block_bytes(4));
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 2u);
  controller_.session_closed(session_);
  EXPECT_EQ(reserved(), 400) << "a run is under way";
  finish_everywhere(2);
  EXPECT_EQ(reserved(), 0);
}

TEST_F(SuspensionsTest, WhereAHostRefusesAllIsAsBefore) {
  const PlanId plan = compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  submit(session_, plan);
  executor_[1].moving->fail(Error(ErrorKind::kOverloaded, "its memory is full"));
  reactor_->run_ready();
  fiber.join();
  ASSERT_TRUE(failed_);
  EXPECT_THAT(failed_->what(), HasSubstr("its memory is full"));
  EXPECT_EQ(failed_->where().host, "host-1");
  ASSERT_EQ(executor_[0].moves.size(), 2u);
  EXPECT_FALSE(executor_[0].moves[1].to_host);
  EXPECT_EQ(executor_[1].moves.size(), 1u) << "nothing of it has moved";
  EXPECT_EQ(reserved(), 400);
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u) << "its runs go on";
  EXPECT_FALSE(controller_.programs()[0].suspended);
}

TEST_F(SuspensionsTest, ItComesBackOnlyWhereThereIsRoomAndSaysWhoHoldsWhat) {
  compile(session_);
  Fiber fiber = suspending();
  fiber.join();
  FakeClient other;
  const SessionId second = controller_.add_session("other", "bob", other);
  for (FakeExecutor& executor : executor_) executor.need_bytes = 600;
  compile(second);
  const Error refused = error_of([&] { resume(); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(refused.what(),
              HasSubstr("resume: there is no room: needs 400 B on host-0/device 0, where 300 B of "
                        "1000 B are free: 100 B short; client 2 of bob holds 700 B"));
  EXPECT_EQ(reserved(), 700);
  EXPECT_EQ(executor_[0].moves.size(), 1u);
  controller_.session_closed(second);
  resume();
  EXPECT_EQ(reserved(), 400);
}

TEST_F(SuspensionsTest, OneWhoseSessionIsClosedMeanwhileLeavesNothing) {
  compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  controller_.session_closed(session_);
  executor_[1].moving->set(100);
  reactor_->run_ready();
  fiber.join();
  ASSERT_TRUE(failed_);
  EXPECT_THAT(failed_->what(), HasSubstr("its session was closed"));
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(controller_.counts().total(), 0u);
}

TEST_F(SuspensionsTest, AHostThatIsLostMeanwhileHasNothingToMove) {
  compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  lose(1);
  reactor_->run_ready();
  fiber.join();
  EXPECT_EQ(bytes_, 100);
  resume();
  EXPECT_FALSE(controller_.programs()[0].suspended);
}

TEST_F(SuspensionsTest, APlanThatIsReleasedMeanwhileDoesNotComeBack) {
  const PlanId plan = compile(session_);
  Fiber fiber = suspending();
  fiber.join();
  controller_.release_plan(plan);
  resume();
  EXPECT_TRUE(executor_[0].moves.back().plans.empty());
  EXPECT_EQ(reserved(), 100) << "of its states";
  controller_.release_slice(slice_);
  EXPECT_EQ(reserved(), 0);
}

}  // namespace
}  // namespace gangway
