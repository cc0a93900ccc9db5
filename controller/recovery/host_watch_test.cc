#include <gmock/gmock.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using HostWatchTest = ControllerTest;

TEST_F(HostWatchTest, ALostHostFailsExactlyTheRunsThatUseItAndLaterOnes) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  lose(1);
  ASSERT_EQ(client_.ended.size(), 1u) << "host-0 may wait for host-1 for ever";
  EXPECT_EQ(executor_[0].all<CancelFrame>().size(), 1u);
  finish(0, RunId(1));
  submit(session_, plan);
  ASSERT_EQ(client_.ended.size(), 2u);
  for (const RunDoneFrame& done : client_.ended) {
    EXPECT_EQ(done.error->kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(done.error->what(), HasSubstr("host-1"));
  }
}

TEST_F(HostWatchTest, APlanThatLostAHostLeavesTheDevicesOfTheOthersAtOnce) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  lose(1);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u) << "its run may wait for ever";
  controller_.release_plan(plan);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
  EXPECT_EQ(controller_.counts().plans, 0u);
}

TEST_F(HostWatchTest, AHostThatIsLostWhileItInstallsAPlanEndsTheCompilation) {
  executor_[1].installing.emplace();
  Fiber fiber = compiling(session_);
  EXPECT_FALSE(compile_failed_.has_value());
  lose(1, "it has said nothing");
  fiber.join();
  ASSERT_TRUE(compile_failed_.has_value());
  EXPECT_EQ(compile_failed_->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(compile_failed_->what(), HasSubstr("\"host-1\" is gone: it has said nothing"));
  EXPECT_EQ(controller_.counts().plans, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

TEST_F(HostWatchTest, AHostThatIsLostWhileItCommitsAPlanEndsTheCompilation) {
  executor_[1].commit.emplace();
  Fiber fiber = compiling(session_);
  lose(1);
  fiber.join();
  ASSERT_TRUE(compile_failed_.has_value());
  EXPECT_EQ(compile_failed_->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(controller_.counts().plans, 0u);
}

TEST_F(HostWatchTest, AHostThatSaysNothingIsLostInBoundedTime) {
  submit(session_, compile(session_));
  const int64_t later_ns = reactor_->clock().now_ns() + 11'000'000'000;
  controller_.tick(later_ns);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("said nothing for 10000 ms"));
  EXPECT_TRUE(executor_[0].hung_up && executor_[1].hung_up);
}

TEST_F(HostWatchTest, AHostThatComesBackHasItsNameAgainOnceNothingUsesTheLostOne) {
  FakeExecutor again;
  const PlanId plan = compile(session_);
  submit(session_, plan);
  finish_everywhere(1);
  controller_.on_message(session_, FreeFrame{{last_output_}});
  controller_.release_plan(plan);
  controller_.release_slice(slice_);
  lose(1);
  EXPECT_EQ(controller_.hosts().all().size(), 1u);
  const HostId back = controller_.add_host({.name = "host-1"}, again);
  EXPECT_EQ(controller_.hosts().at(back).info.name, "host-1");
  EXPECT_EQ(controller_.hosts().at(back).runs, 0u) << "they are the lost one's";
  lose(1);  // Its connection ends only now.
  controller_.on_message(hosts_[1], HeartbeatFrame{});
  EXPECT_EQ(controller_.counts().hosts, 2u);
}

TEST_F(HostWatchTest, ALostHostIsRememberedWithItsReasonAsLongAsASliceOrAnArrayLiesOnIt) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  finish_everywhere(1);
  lose(1, "it fell asleep");
  try {
    reactor_->run(
        [&] { controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice_}, 2); });
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it fell asleep"));
  }
  controller_.release_plan(plan);
  controller_.release_slice(slice_);
  EXPECT_EQ(controller_.hosts().all().size(), 2u) << "the run's output lies there";
  controller_.on_message(session_, FreeFrame{{last_output_}});
  EXPECT_EQ(controller_.hosts().all().size(), 1u);
  EXPECT_EQ(controller_.counts().arrays, 0u);
}

}  // namespace
}  // namespace gangway
