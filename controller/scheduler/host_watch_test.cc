#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using HostWatchTest = ControllerTest;

TEST_F(HostWatchTest, APlanThatLostAHostLeavesTheDevicesOfTheOthersAtOnce) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  lose(1);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u) << "its run may wait for ever";
  controller_.path().release_plan(plan);
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

// Time passes, and the controller ticks as often as its watch asks; host-0 sends a frame each time.
class SilenceTest : public ControllerTest {
 protected:
  void pass(int64_t ms) {
    const int64_t end_ns = now_ns_ + ms * 1'000'000;
    while (asked_ns_ < end_ns) {
      now_ns_ = std::max(now_ns_, asked_ns_);
      asked_ns_ = tick();
    }
    now_ns_ = end_ns;
  }
  // The controller's process is stopped, and then goes on.
  void stand_still(int64_t ms) {
    now_ns_ += ms * 1'000'000;
    asked_ns_ = tick();
  }
  bool suspect(size_t host) {
    return controller_.tables().metrics.to_prometheus().find(
               cat("gangway_host_suspect{host=\"host-", host, "\"} 1")) != std::string::npos;
  }
  bool lost(size_t host) const { return executor_[host].hung_up; }
  void hear(size_t host) {
    reactor_->run([this] { WaitQueue().wait_until_ns("for time to pass", now_ns_); });
    controller_.on_message(hosts_[host], HeartbeatFrame{});
  }

 private:
  int64_t tick() {
    hear(0);
    return controller_.tick(now_ns_);
  }

  int64_t now_ns_ = reactor_->clock().now_ns();
  int64_t asked_ns_ = now_ns_;
};

TEST_F(SilenceTest, ASilentHostIsSuspectAfterTwoSecondsAndLostAfterTen) {
  submit(session_, compile(session_));
  pass(1900);
  EXPECT_FALSE(suspect(1));
  pass(200);
  EXPECT_TRUE(suspect(1));
  EXPECT_FALSE(suspect(0));
  pass(7800);
  EXPECT_FALSE(lost(1));
  EXPECT_TRUE(client_.ended.empty()) << "a suspect host keeps its runs";
  pass(200);
  EXPECT_TRUE(lost(1));
  EXPECT_FALSE(lost(0));
  EXPECT_FALSE(suspect(1)) << "it is lost";
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("said nothing for 10000 ms"));
}

TEST_F(SilenceTest, ASuspectHostThatSendsAMessageIsNoLongerSuspect) {
  pass(5000);
  EXPECT_TRUE(suspect(1));
  hear(1);
  EXPECT_FALSE(suspect(1));
  pass(1900);
  EXPECT_FALSE(suspect(1)) << "its silence counts from then on";
}

TEST_F(SilenceTest, APauseOfTheControllerDoesNotCountAsSilenceOfHosts) {
  submit(session_, compile(session_));
  pass(1000);
  hear(1);
  stand_still(15'000);
  EXPECT_FALSE(suspect(1));
  hear(1);  // The controller reads what the host sent meanwhile.
  pass(1500);
  EXPECT_FALSE(suspect(0) || suspect(1) || lost(0) || lost(1));
  EXPECT_TRUE(client_.ended.empty());
}

TEST_F(SilenceTest, AHostThatDiedWhileTheControllerStoodStillIsStillFound) {
  pass(1000);
  hear(1);
  stand_still(15'000);
  pass(2100);
  EXPECT_TRUE(suspect(1));
  pass(8100);
  EXPECT_TRUE(lost(1));
}

TEST_F(SilenceTest, MessagesThatWaitInTheSocketAreReadBeforeAHostIsDeclaredLost) {
  pass(9990);
  EXPECT_TRUE(suspect(1));
  pass(15);  // The host is past its time: the next tick judges it.
  hear(1);
  pass(1000);
  EXPECT_FALSE(suspect(1) || lost(1));
}

TEST_F(HostWatchTest, AHostThatComesBackHasItsNameAgainOnceNothingUsesTheLostOne) {
  FakeExecutor again;
  const PlanId plan = compile(session_);
  submit(session_, plan);
  finish_everywhere(1);
  controller_.on_message(session_, FreeFrame{{last_output_}});
  controller_.path().release_plan(plan);
  controller_.tables().slices.release(slice_);
  lose(1);
  EXPECT_EQ(controller_.tables().hosts.all().size(), 1u);
  const HostId back = controller_.add_host({.name = "host-1"}, again);
  EXPECT_EQ(controller_.tables().hosts.at(back).info.name, "host-1");
  EXPECT_EQ(controller_.tables().hosts.at(back).runs, 0u) << "they are the lost one's";
  lose(1);  // The connection of the lost host ends only now.
  controller_.on_message(hosts_[1], HeartbeatFrame{});
  EXPECT_EQ(controller_.counts().hosts, 2u);
}

TEST_F(HostWatchTest, AHostThatComesBackHasItsNameThoughSlicesStillLieOnTheLostOne) {
  FakeExecutor again, stranger;
  const PlanId plan = compile(session_);
  submit(session_, plan);
  finish_everywhere(1);
  const auto runs_done = [&] {
    return controller_.tables()
        .metrics.counter("gangway_runs_done_total", "", {{"host", "host-1"}})
        .value();
  };
  EXPECT_EQ(runs_done(), 1u);
  lose(1);
  const HostId other = controller_.add_host({.name = "host-1", .owner = "bob"}, stranger);
  EXPECT_EQ(controller_.tables().hosts.at(other).info.name, "host-1-2")
      << "the name is its owner's";
  const HostId back =
      controller_.add_host({.name = "host-1", .devices = 2, .memory_bytes = 1000}, again);
  EXPECT_EQ(controller_.tables().hosts.at(back).info.name, "host-1");
  EXPECT_EQ(controller_.tables().hosts.all().size(), 4u)
      << "the lost one is there, with its reason";
  // A frame of the lost host does not count for the new one.
  controller_.on_message(hosts_[1], RunDoneFrame{.run = RunId(1)});
  EXPECT_EQ(controller_.tables().hosts.at(back).runs, 0u);
  EXPECT_EQ(controller_.tables().hosts.at(back).users, 0);
  lose(1);
  EXPECT_EQ(controller_.counts().hosts, 3u);
  // The host's metrics go on from their old values.
  hosts_[1] = back;
  const PlanId next = compile(session_, 2, 2);
  EXPECT_EQ(
      controller_.tables().hosts.at(back).users + controller_.tables().hosts.at(hosts_[0]).users,
      4 + 3);
  controller_.path().release_plan(next);
  controller_.on_message(back, RunDoneFrame{.run = RunId(99)});
  EXPECT_EQ(runs_done(), 2u);
}

TEST_F(HostWatchTest, AHostThatIsGoneForGoodIsForgottenAfterADay) {
  lose(1);
  ASSERT_NE(controller_.tables().hosts.names().find("host-1"), nullptr);
  EXPECT_EQ(controller_.tables().hosts.names().at("host-1").why_gone, "its connection ended");
  const int64_t now_ns = reactor_->clock().now_ns();
  controller_.tick(now_ns + HostNames::kForgetAfterNs - 1'000'000'000);
  EXPECT_NE(controller_.tables().hosts.names().find("host-1"), nullptr);
  controller_.tick(now_ns + HostNames::kForgetAfterNs + 1'000'000'000);
  EXPECT_EQ(controller_.tables().hosts.names().find("host-1"), nullptr);
}

TEST_F(HostWatchTest, ALostHostIsRememberedWithItsReasonAsLongAsASliceOrAnArrayLiesOnIt) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  finish_everywhere(1);
  lose(1, "it fell asleep");
  try {
    reactor_->run(
        [&] { controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice_}, {2}); });
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it fell asleep"));
  }
  controller_.path().release_plan(plan);
  controller_.tables().slices.release(slice_);
  EXPECT_EQ(controller_.tables().hosts.all().size(), 2u) << "the run's output lies there";
  controller_.on_message(session_, FreeFrame{{last_output_}});
  EXPECT_EQ(controller_.tables().hosts.all().size(), 1u);
  EXPECT_EQ(controller_.counts().arrays, 0u);
}

}  // namespace
}  // namespace gangway
