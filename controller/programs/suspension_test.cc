#include "controller/programs/suspension.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class SuspensionTest : public ControllerTest {
 protected:
  SuspensionTest() {
    for (FakeExecutor& executor : executor_) {
      executor.need_bytes = 300;
      executor.state_bytes = 100;
    }
  }
  int64_t reserved() { return controller_.tables().hosts.at(hosts_[0]).reserved[0]; }
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
    EXPECT_TRUE(controller_.program_counts()[0].suspended);
    EXPECT_EQ(controller_.program_counts()[0].host_bytes, 100);
    EXPECT_EQ(reserved(), 400);
    EXPECT_TRUE(executor_[0].all<PrepareFrame>().empty());
    EXPECT_THROW(resume(), Error);
    EXPECT_EQ(reserved(), 400);
    for (FakeExecutor& executor : executor_) executor.moving.reset();
    resume();
    EXPECT_FALSE(controller_.program_counts()[0].suspended);
    EXPECT_EQ(controller_.program_counts()[0].host_bytes, 0);
    EXPECT_EQ(reserved(), 400);
    EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u);
  }

  std::optional<int64_t> bytes_;
  std::optional<Error> failed_;
};

TEST_F(SuspensionTest, ASuspensionThatAHostRefusesChangesNothing) {
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
  EXPECT_FALSE(controller_.program_counts()[0].suspended);
}

TEST_F(SuspensionTest, AProgramThatIsHalfMovedWhenSuspendingFailsDoesNotRun) {
  const PlanId plan = compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  submit(session_, plan);
  refuse_both_ways();
  fiber.join();
  expect_it_stays_suspended();
}

TEST_F(SuspensionTest, AProgramThatIsHalfMovedWhenResumingFailsDoesNotRun) {
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

TEST_F(SuspensionTest, AProgramWhoseSessionIsClosedMeanwhileLeavesNothing) {
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

TEST_F(SuspensionTest, AHostThatIsLostMeanwhileHasNothingToMove) {
  compile(session_);
  executor_[1].moving.emplace();
  Fiber fiber = suspending();
  lose(1);
  reactor_->run_ready();
  fiber.join();
  EXPECT_EQ(bytes_, 100);
  resume();
  EXPECT_FALSE(controller_.program_counts()[0].suspended);
}

TEST_F(SuspensionTest, ACompilationThatWaitsForASuspendedProgramEndsWithIt) {
  compile(session_);
  suspending().join();
  Fiber fiber = compiling(session_);
  EXPECT_FALSE(fiber.done());
  controller_.session_closed(session_);
  reactor_->run_ready();
  fiber.join();
  ASSERT_TRUE(compile_failed_);
  EXPECT_EQ(compile_failed_->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(controller_.counts().total(), 0u);
}

TEST_F(SuspensionTest, TheMemoryOfHostsIsCountedForAllProgramsTogetherUntilTheyEnd) {
  const auto gauge = [&] {
    return controller_.tables()
        .metrics
        .gauge("gangway_suspended_bytes",
               "Bytes of host memory that hold states of suspended programs",
               {{"host", controller_.tables().hosts.at(hosts_[0]).info.name}})
        .value();
  };
  compile(session_);
  suspending().join();
  const int64_t of_one = gauge();
  EXPECT_GT(of_one, 0);
  FakeClient client;
  const SessionId other = controller_.programs().add("other", "bob", client);
  compile(other);
  reactor_->run([&] { controller_.suspend_program(other, "bob"); });
  EXPECT_EQ(gauge(), 2 * of_one);
  controller_.session_closed(other);
  EXPECT_EQ(gauge(), of_one);
  resume();
  EXPECT_EQ(gauge(), 0);
}

TEST_F(SuspensionTest, APlanThatIsReleasedMeanwhileDoesNotComeBack) {
  const PlanId plan = compile(session_);
  Fiber fiber = suspending();
  fiber.join();
  controller_.path().release_plan(plan);
  resume();
  EXPECT_TRUE(executor_[0].moves.back().plans.empty());
  EXPECT_EQ(reserved(), 100) << "of its states";
  controller_.tables().slices.release(slice_);
  EXPECT_EQ(reserved(), 0);
}

}  // namespace
}  // namespace gangway
