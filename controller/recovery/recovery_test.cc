// What becomes of a program's runs when it is brought back, with hosts that end them as a test says.
#include "controller/recovery/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/test_controller.h"

namespace gangway::recovery_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr int64_t kMs = 1'000'000;

Program counting() {
  ProgramBuilder b("counting", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32()));
  b.update(w, w + 1.0);
  b.output("w", w);
  return b.build();
}

// A program with checkpoints on one of three hosts, of two devices each. It never comes as far as one.
class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest() {
    for (FakeExecutor& executor : executors_) {
      hosts_.push_back(
          controller_.add_host({.name = "host", .devices = 2, .memory_bytes = 1 << 20}, executor));
    }
    session_ = controller_.add_session("tester", "ada", client_);
    plan_ = reactor_->run([&] {
      slice_ = controller_.allocate(session_, {2}).id;
      const PlanId plan = controller_.compile(session_, counting(), {slice_}, {8}).id;
      controller_.keep_checkpoints(session_, slice_, {.every = 1'000'000});
      return plan;
    });
  }
  ~RecoveryTest() override {
    controller_.session_closed(session_);
    reactor_->run_ready();
  }

  RunId submit(int64_t time_limit_ms = 0) {
    const RunId run((session_.value << 40) + ++names_);
    controller_.on_message(session_,
                           RunFrame{.plan = plan_,
                                    .run = run,
                                    .after = std::exchange(last_, run),
                                    .outputs = {ArrayId((session_.value << 40) + ++names_)},
                                    .time_limit_ms = time_limit_ms});
    return run;
  }
  size_t host() {
    const HostId at = controller_.slice(session_, slice_).devices.at(0).host;
    return static_cast<size_t>(std::ranges::find(hosts_, at) - hosts_.begin());
  }
  // Those of its runs that were prepared on its host and have not been answered.
  std::vector<RunId> prepared() {
    std::vector<RunId> runs;
    for (const PrepareFrame& frame : executors_[host()].all<PrepareFrame>())
      if (!answered_.contains(frame.run.run)) runs.push_back(frame.run.run);
    return runs;
  }
  // Ends the oldest run on its host.
  void finish(const std::optional<Error>& error = {}) {
    const RunId run = prepared().at(0);
    answered_.insert(run);
    controller_.on_message(hosts_[host()],
                           RunDoneFrame{.run = run, .error = error, .culprit = true});
    reactor_->run_ready();
  }
  void lose_host() {
    controller_.host_lost(hosts_[host()], Error(ErrorKind::kUnavailable, "its connection ended"));
    reactor_->run_ready();
  }
  void pass_ms(int64_t ms) {
    reactor_->run([&] {
      WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * kMs);
    });
    controller_.tick(reactor_->clock().now_ns());
    reactor_->run_ready();
  }
  std::vector<std::string> told() const {
    std::vector<std::string> lines;
    for (const Message& message : client_.received)
      if (const auto* warning = std::get_if<WarningFrame>(&message)) lines.push_back(warning->text);
    return lines;
  }
  uint64_t version() { return controller_.slice(session_, slice_).version->value; }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[3];
  FakeClient client_;
  Controller controller_{*reactor_, {.checkpoint_folder = "/nowhere"}};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;
  PlanId plan_;
  RunId last_;
  std::set<RunId> answered_;
  uint64_t names_ = 0;
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
