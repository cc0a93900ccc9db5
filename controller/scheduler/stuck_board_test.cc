#include "controller/scheduler/stuck_board.h"

#include <gmock/gmock.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

class StuckBoardTest : public ControllerTest {
 protected:
  void beat(size_t host, std::vector<StuckDevice> stuck) {
    controller_.on_message(hosts_[host], HeartbeatFrame{.stuck = std::move(stuck)});
  }
  std::string metrics() { return controller_.tables().metrics.to_prometheus(); }
  std::string error_of_run(uint64_t run) {
    finish(0, RunId(run), Error(ErrorKind::kCancelled, "run: cancelled"));
    finish(1, RunId(run));
    return client_.ended.back().error->what();
  }

  const StuckDevice dot_{
      .device = 1, .run = RunId(1), .what = "dot of f32[4, 8]", .at = "model.cc:12", .ms = 1500};
  const StuckDevice waiting_{.device = 0,
                             .run = RunId(1),
                             .what = "all_reduce of f32[8]",
                             .at = "model.cc:14",
                             .ms = 1600,
                             .waits = true};
};

TEST_F(StuckBoardTest, ADeviceIsStuckAsLongAsItsHostSaysSo) {
  beat(1, {dot_});
  EXPECT_THAT(metrics(), HasSubstr("gangway_device_stuck{device=\"1\",host=\"host-1\"} 1\n"));
  ASSERT_EQ(controller_.tables().hosts.at(hosts_[1]).stuck.size(), 1u);
  EXPECT_EQ(to_text(controller_.tables().hosts.at(hosts_[1]).stuck[0]),
            "device 1 is stuck in dot of f32[4, 8] at model.cc:12, for 1.50 s");
  beat(1, {});
  EXPECT_THAT(metrics(), HasSubstr("gangway_device_stuck{device=\"1\",host=\"host-1\"} 0\n"));
  EXPECT_TRUE(controller_.tables().hosts.at(hosts_[1]).stuck.empty());
}

TEST_F(StuckBoardTest, TheErrorOfARunSaysWhereItWasStuckAndNotWhoWaitedForThat) {
  submit(session_, compile(session_));
  beat(0, {waiting_});
  beat(1, {dot_});
  beat(0, {waiting_});
  const std::string error = error_of_run(1);
  EXPECT_THAT(error, HasSubstr("host \"host-1\": device 1 is stuck in dot of f32[4, 8]"));
  EXPECT_THAT(error, Not(HasSubstr("all_reduce")));
}

TEST_F(StuckBoardTest, ARunThatGoesOnAndThenFailsDoesNotSayThatItIsStuck) {
  submit(session_, compile(session_));
  beat(1, {dot_});
  beat(0, {waiting_});
  beat(1, {});
  EXPECT_THAT(error_of_run(1), Not(HasSubstr("is stuck in")));
}

TEST_F(StuckBoardTest, ARunThatIsStuckAtTwoDevicesNamesTheOneThatDoesNotGoOn) {
  submit(session_, compile(session_));
  StuckDevice other = dot_;
  other.device = 0;
  beat(1, {other, dot_});
  beat(1, {other});
  EXPECT_THAT(error_of_run(1), HasSubstr("host \"host-1\": device 0 is stuck in dot"));
}

TEST_F(StuckBoardTest, TheErrorOfARunWhoseHostIsLostSaysWhereItWasStuck) {
  submit(session_, compile(session_));
  beat(1, {dot_});
  lose(1);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("device 1 is stuck in dot of f32[4, 8]"));
}

TEST_F(StuckBoardTest, ARunThatEndsWellAfterAllIsNoError) {
  submit(session_, compile(session_));
  beat(1, {dot_});
  beat(1, {});
  finish_everywhere(1);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_FALSE(client_.ended[0].error);
}

TEST_F(StuckBoardTest, ALostHostHasNoStuckDevices) {
  beat(1, {dot_});
  lose(1);
  EXPECT_THAT(metrics(), HasSubstr("gangway_device_stuck{device=\"1\",host=\"host-1\"} 0\n"));
}

TEST_F(StuckBoardTest, ADeviceThatTheHostDoesNotHaveIsRefused) {
  StuckDevice beyond = dot_;
  beyond.device = 2;
  EXPECT_THROW(beat(1, {beyond}), Error);
  beat(1, {{.device = 0, .run = RunId(99), .what = "a run that nobody knows"}});
}

}  // namespace
}  // namespace gangway
