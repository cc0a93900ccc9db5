#include "controller/service/suspensions.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

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
  // Suspends the program in a fiber, which runs until it waits.
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
  // Resumes the program in a fiber, which runs until it waits.
  Fiber resuming() {
    Fiber fiber = reactor_->spawn("resume", [this] {
      try {
        controller_.resume_program(session_, "ada");
      } catch (const Error& error) {
        failed_ = error;
      }
    });
    reactor_->run_ready();
    return fiber;
  }
  // The second host refuses the request, and the first one refuses to undo its part.
  void refuse_both_ways() {
    executor_[0].moving.emplace();
    executor_[0].moving->fail(Error(ErrorKind::kOverloaded, "no piece is large enough"));
    executor_[1].moving->fail(Error(ErrorKind::kOverloaded, "its memory is full"));
    reactor_->run_ready();
  }
  // The program can't run, keeps its devices, and goes on when it is resumed later.
  void expect_it_stays_suspended() {
    ASSERT_TRUE(failed_);
    EXPECT_THAT(failed_->what(), HasSubstr("its memory is full; what had been moved could not be "
                                           "moved back: no piece is large enough"));
    EXPECT_TRUE(controller_.programs()[0].suspended);
    EXPECT_EQ(controller_.programs()[0].host_bytes, 100);
    EXPECT_EQ(reserved(), 400);
    EXPECT_TRUE(executor_[0].all<PrepareFrame>().empty());
    EXPECT_THROW(resume(), Error);
    EXPECT_EQ(reserved(), 400);
    for (FakeExecutor& executor : executor_) executor.moving.reset();
    resume();
    EXPECT_FALSE(controller_.programs()[0].suspended);
    EXPECT_EQ(controller_.programs()[0].host_bytes, 0);
    EXPECT_EQ(reserved(), 400);
    EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u);
  }

  std::optional<int64_t> bytes_;
  std::optional<Error> failed_;
};

TEST_F(SuspensionsTest, ASuspensionThatAHostRefusesChangesNothing) {
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

TEST_F(SuspensionsTest, AProgramThatIsHalfMovedWhenSuspendingFailsDoesNotRun) {
  const PlanId plan = compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  submit(session_, plan);
  refuse_both_ways();
  fiber.join();
  expect_it_stays_suspended();
}

TEST_F(SuspensionsTest, AProgramThatIsHalfMovedWhenResumingFailsDoesNotRun) {
  const PlanId plan = compile(session_);
  suspending().join();
  EXPECT_EQ(reserved(), 0);
  submit(session_, plan);
  executor_[1].moving.emplace();
  Fiber fiber = resuming();
  refuse_both_ways();
  fiber.join();
  expect_it_stays_suspended();
}

TEST_F(SuspensionsTest, AProgramWhoseSessionIsClosedMeanwhileLeavesNothing) {
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
