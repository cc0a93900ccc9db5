#include <gmock/gmock.h>

#include <limits>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
class RunsTest : public ControllerTest {
 protected:
  // Ticks as often as the controller asks, for this long.
  void pass(int64_t from_ns, int64_t ms) {
    const int64_t end_ns = from_ns + ms * 1'000'000;
    for (int64_t now_ns = from_ns; now_ns < end_ns;) now_ns = controller_.tick(now_ns);
    controller_.tick(end_ns);
  }
  void refuse(size_t host, RunId run) {
    const Error why(ErrorKind::kUnavailable, "its program is suspended");
    controller_.on_message(
        hosts_[host], RunDoneFrame{.run = run, .error = why, .is_origin = true, .refused = true});
  }
  // A run whose plan's first section is being measured, on devices that another client shares.
  RunId submit_behind_others(int64_t time_limit_ms) {
    const SessionId second = controller_.programs().add("other", "ada", other_);
    const PlanId mine = compile(session_), theirs = compile(second);
    submit(second, theirs);
    submit(session_, mine);
    return submit(session_, mine, time_limit_ms);
  }

  FakeClient other_;
};

TEST_F(RunsTest, ARunIsOneFrameForEachHostWithTheSameTickets) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  submit(session_, plan);
  EXPECT_THAT(tickets(0), ElementsAre(1, 2));  // One node each.
  EXPECT_EQ(tickets(0), tickets(1));
}

TEST_F(RunsTest, RunsOfTwoClientsReachAllHostsInOneOrder) {
  FakeClient other;
  const SessionId second = controller_.programs().add("other", "ada", other);
  const PlanId a = compile(session_), b = compile(second);
  for (int i = 0; i < 2; ++i) {
    submit(session_, a);
    submit(second, b);
  }
  EXPECT_THAT(tickets(0), ElementsAre(1, 2)) << "nobody knows yet how long they take";
  for (uint64_t run = 1; run <= 2; ++run) finish_everywhere(run);
  EXPECT_THAT(tickets(0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tickets(0), tickets(1));
}

TEST_F(RunsTest, NoMoreRunsThanThePlanAllowsAreInFlight) {
  const PlanId plan = compile(session_, 2);
  for (int i = 0; i < 4; ++i) submit(session_, plan);
  EXPECT_EQ(tickets(0).size(), 2u);
  finish(0, RunId(1));
  EXPECT_EQ(tickets(0).size(), 2u) << "the other host is not done";
  finish(1, RunId(1));
  EXPECT_EQ(tickets(0).size(), 3u);
}

// The hosts that live have not ended the earlier runs, so they have no room for another.
TEST_F(RunsTest, RunsThatWaitWhenAHostIsLostAreNotPreparedOnTheOthers) {
  const PlanId plan = compile(session_, 1);
  for (int i = 0; i < 3; ++i) submit(session_, plan);
  lose(0);
  EXPECT_EQ(executor_[1].all<PrepareFrame>().size(), 1u);
  EXPECT_EQ(client_.ended.size(), 3u);
}

TEST_F(RunsTest, TheClientHearsOfARunOnceAllItsHostsAreDone) {
  const RunId run = submit(session_, compile(session_));
  finish(0, RunId(1));
  EXPECT_TRUE(client_.ended.empty());
  finish(1, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].run, run);
  EXPECT_FALSE(client_.ended[0].error.has_value());
}

TEST_F(RunsTest, TheHostThatRaisedAnErrorIsNamedAndNotTheOnesThatHeardOfIt) {
  submit(session_, compile(session_));
  controller_.on_message(
      hosts_[0], RunDoneFrame{.run = RunId(1), .error = Error(ErrorKind::kLost, "hearsay")});
  finish(1, RunId(1), Error(ErrorKind::kLost, "not finite"));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("not finite"));
  EXPECT_EQ(client_.ended[0].error->where().host, "host-1");
}

// The peers of that host would wait for its part until a time limit.
TEST_F(RunsTest, ARunThatOneHostRefusesIsGivenUpOnTheOthersAtOnceWithItsPlan) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  submit(session_, plan);
  refuse(0, RunId(1));
  const std::vector<CancelFrame> cancelled = executor_[1].all<CancelFrame>();
  ASSERT_EQ(cancelled.size(), 2u);
  for (const CancelFrame& frame : cancelled)
    EXPECT_EQ(frame.error.kind(), ErrorKind::kUnavailable) << "the devices wait for no peer then";
  EXPECT_TRUE(client_.ended.empty()) << "host-1 has not ended them";
  const Error given_up(ErrorKind::kCancelled, "run: its plan was given up");
  refuse(0, RunId(2));
  EXPECT_EQ(executor_[1].all<CancelFrame>().size(), 2u) << "it has been told";
  for (uint64_t run = 1; run <= 2; ++run) finish(1, RunId(run), given_up);
  ASSERT_EQ(client_.ended.size(), 2u);
  EXPECT_EQ(client_.ended[0].error->message(), "its program is suspended");
  EXPECT_EQ(client_.ended[0].error->where().host, "host-0");
  submit(session_, plan);
  ASSERT_EQ(client_.ended.size(), 3u);
  for (const size_t run : {1, 2}) {
    EXPECT_EQ(client_.ended[run].error->kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(client_.ended[run].error->what(),
                HasSubstr("it is given up, since host \"host-0\" took no part in a run of it"));
  }
  EXPECT_EQ(executor_[1].all<UninstallFrame>().size(), 1u);
  submit(session_, compile(session_));
  finish_everywhere(4);
  ASSERT_EQ(client_.ended.size(), 4u);
  EXPECT_FALSE(client_.ended[3].error);
}

TEST_F(RunsTest, ACancelledRunThatWaitsEndsAtOnceAndOneInFlightIsStoppedByItsHosts) {
  const PlanId plan = compile(session_, 1);
  const RunId granted = submit(session_, plan), waiting = submit(session_, plan);
  const Error why(ErrorKind::kCancelled, "cancelled");
  controller_.on_message(session_, CancelFrame{waiting, why});
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].run, waiting);
  controller_.on_message(session_, CancelFrame{granted, why});
  EXPECT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(executor_[0].all<CancelFrame>().size(), 1u);
  EXPECT_EQ(executor_[1].all<CancelFrame>().size(), 1u);
}

// kUnavailable would tell the hosts that a peer is gone, and each would go its own way.
TEST_F(RunsTest, AnyReasonOfAClientToCancelReachesHostsAsACancellation) {
  const RunId run = submit(session_, compile(session_));
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kUnavailable, "enough")});
  const std::vector<CancelFrame> cancels = executor_[0].all<CancelFrame>();
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(cancels[0].error.what(), HasSubstr("enough"));
}

TEST_F(RunsTest, ARunThatItsHostsEndedBeforeTheyHeardOfItsCancellationHasNotFailed) {
  const RunId run = submit(session_, compile(session_));
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kCancelled, "cancelled")});
  finish(0, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_FALSE(client_.ended[0].error.has_value()) << "it has committed";
}

TEST_F(RunsTest, ARunPastItsTimeLimitIsCancelledSayingSo) {
  const PlanId plan = compile(session_, 1);
  submit(session_, plan);
  submit(session_, plan, 500);
  const int64_t now_ns = reactor_->clock().now_ns();
  EXPECT_LE(controller_.tick(now_ns), now_ns + 500'000'000);
  EXPECT_TRUE(client_.ended.empty());
  controller_.tick(now_ns + 500'000'000);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kCancelled);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("limit of 500 ms"));
}

TEST_F(RunsTest, ATimeLimitEndsARunForItsClientThoughAHostNeverAnswersAndItsMemoryStaysReserved) {
  for (FakeExecutor& executor : executor_) executor.need_bytes = 100;
  const PlanId plan = compile(session_);
  submit(session_, plan, 500);
  const int64_t limit_ns = reactor_->clock().now_ns() + 500'000'000;
  controller_.tick(limit_ns);
  finish(0, RunId(1), Error(ErrorKind::kCancelled, "cancelled"));
  EXPECT_TRUE(client_.ended.empty()) << "host-1 may answer yet";
  pass(limit_ns, 2000);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("limit of 500 ms"));
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("host \"host-1\" has not answered"));
  controller_.path().release_plan(plan);
  EXPECT_EQ(controller_.counts().plans, 1u);
  EXPECT_EQ(controller_.tables().hosts.at(hosts_[1]).reserved[0], 100);
  finish(1, RunId(1));  // The device goes on at last.
  EXPECT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(controller_.counts().plans + controller_.counts().runs, 0u);
  EXPECT_EQ(controller_.tables().hosts.at(hosts_[1]).reserved[0], 0);
}

TEST_F(RunsTest, ARunThatIsStuckOnAHostThatIsLostInTheEndIsReportedOnce) {
  const PlanId plan = compile(session_);
  submit(session_, plan, 500);
  const int64_t limit_ns = reactor_->clock().now_ns() + 500'000'000;
  controller_.tick(limit_ns);
  pass(limit_ns, 2000);
  ASSERT_EQ(client_.ended.size(), 1u);
  lose(0);
  lose(1);
  EXPECT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(controller_.counts().runs, 0u);
}

TEST_F(RunsTest, APauseOfTheControllerDoesNotCountAsTimeWithoutAnAnswer) {
  submit(session_, compile(session_), 500);
  const int64_t limit_ns = reactor_->clock().now_ns() + 500'000'000;
  controller_.tick(limit_ns);
  controller_.tick(limit_ns + 60'000'000'000);
  EXPECT_TRUE(client_.ended.empty()) << "the answers lie unread in their sockets";
  for (const size_t host : {0, 1}) finish(host, RunId(1), Error(ErrorKind::kCancelled, "limit"));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kCancelled);
}

// The run's devices could answer only when they have its tickets.
TEST_F(RunsTest, ARunThatWaitsForItsTurnEndsForItsClientAtItsTimeLimitAndBlamesNoHost) {
  submit_behind_others(500);
  EXPECT_THAT(tickets(0), ElementsAre(1, 2)) << "a section that nobody has measured each";
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 3u);
  controller_.tick(reactor_->clock().now_ns() + 500'000'000);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kCancelled);
  EXPECT_THAT(client_.ended[0].error->what(),
              HasSubstr("limit of 500 ms: it still waited for its turn, behind a run of "
                        "client 2 of ada"));
  EXPECT_EQ(executor_[1].all<CancelFrame>().size(), 1u);
  EXPECT_EQ(controller_.counts().runs, 3u) << "its hosts end it when its turn has come";
  for (uint64_t run = 1; run <= 2; ++run) finish_everywhere(run);
  EXPECT_EQ(tickets(0).size(), 3u);
  for (const size_t host : {0, 1}) finish(host, RunId(3), Error(ErrorKind::kCancelled, "limit"));
  EXPECT_EQ(client_.ended.size(), 2u);
  EXPECT_EQ(controller_.counts().runs, 0u);
}

TEST_F(RunsTest, ARunThatIsCancelledWhileItWaitsForItsTurnEndsForItsClientAtOnce) {
  const RunId waits = submit_behind_others(500);
  controller_.on_message(session_, CancelFrame{waits, Error(ErrorKind::kCancelled, "enough")});
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].run, waits);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("enough"));
  pass(reactor_->clock().now_ns(), 5000);
  lose(0);
  EXPECT_EQ(client_.ended.size(), 2u) << "it is told once";
  EXPECT_EQ(controller_.counts().runs, 0u);
}

TEST_F(RunsTest, ARunWhoseArgumentWasNeverMadeSaysWhyAndReachesNoHost) {
  const PlanId plan = compile(session_, 1), elsewhere = compile(session_, 1);
  submit(session_, plan);
  const RunId maker = submit(session_, plan);
  const ArrayId lost = last_output_;
  const auto take = [&](PlanId taker, ArrayId argument) {
    RunFrame takes{.plan = taker, .run = RunId((session_.value << 40) + ++names_)};
    takes.arguments = {{.input = 0, .array = argument}};
    takes.outputs = {ArrayId((session_.value << 40) + ++names_)};
    controller_.on_message(session_, takes);
    return takes.outputs[0];
  };
  const ArrayId lost_too = take(elsewhere, lost);  // It waits for its maker.
  controller_.on_message(session_, CancelFrame{maker, Error(ErrorKind::kCancelled, "enough")});
  take(elsewhere, lost_too);
  ASSERT_EQ(client_.ended.size(), 3u);
  for (const size_t run : {1, 2}) {
    EXPECT_EQ(client_.ended[run].error->kind(), ErrorKind::kCancelled);
    EXPECT_THAT(client_.ended[run].error->message(),
                testing::EndsWith("input \"x\" is not there, since the run that should have made "
                                  "it did not run: enough"));
  }
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u);
  controller_.on_message(session_,
                         HostTransferFrame{.request = 5, .at = {.bytes = 4}, .array = lost});
  const auto* got = std::get_if<HostTransferDoneFrame>(&client_.received.back());
  ASSERT_TRUE(got != nullptr && got->error);
  EXPECT_THAT(got->error->what(), HasSubstr("enough"));
  finish_everywhere(1);
  EXPECT_EQ(controller_.counts().runs, 0u);
}

// An error of a run shows before its outputs are bound to it.
TEST_F(RunsTest, ARunThatTakesTheOutputOfARefusedOneSaysWhyThatWasRefused) {
  const PlanId plan = compile(session_);
  RunFrame wrong{.plan = plan, .run = RunId((session_.value << 40) + 1000)};
  wrong.outputs = {ArrayId((session_.value << 40) + 1001)};
  controller_.on_message(session_, wrong);
  RunFrame takes{.plan = plan, .run = RunId((session_.value << 40) + 1002)};
  takes.arguments = {{.input = 0, .array = wrong.outputs[0]}};
  takes.outputs = {ArrayId((session_.value << 40) + 1003)};
  controller_.on_message(session_, takes);
  ASSERT_EQ(client_.ended.size(), 2u);
  EXPECT_THAT(client_.ended[1].error->what(), HasSubstr("input \"x\" is missing"));
  controller_.on_message(session_, FreeFrame{{wrong.outputs[0], takes.outputs[0]}});
  EXPECT_EQ(controller_.counts().arrays, 0u);
}

// An output is no argument of its own run: nobody would ever make it.
TEST_F(RunsTest, ARunThatTakesItsOwnOutputIsRefused) {
  RunFrame wrong{.plan = compile(session_), .run = RunId((session_.value << 40) + 1000)};
  wrong.outputs = {ArrayId((session_.value << 40) + 1001)};
  wrong.arguments = {{.input = 0, .array = wrong.outputs[0]}};
  controller_.on_message(session_, wrong);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kInvalid);
}

// Adds one to a state with each run.
Program counting(const Mesh& mesh) {
  ProgramBuilder b("counting", mesh);
  Value count = b.state("count", zeros(f32()));
  b.update(count, count + 1.0f);
  b.output("told", count);
  return b.build();
}

// Hosts know only that the run before did not commit.
TEST_F(RunsTest, RunsInFlightBehindOneThatFailedSayWhyItDid) {
  const PlanId plan = reactor_->run([&] {
    slice_ = controller_.allocate(session_, {4}).id;
    return controller_.compile(session_, counting(Mesh{{{"data", 4}}}), {slice_}, {3}).id;
  });
  RunId before;
  const auto next = [&] {
    RunFrame frame{.plan = plan, .run = RunId((session_.value << 40) + ++names_), .after = before};
    frame.outputs = {ArrayId((session_.value << 40) + ++names_)};
    before = frame.run;
    controller_.on_message(session_, frame);
  };
  const auto fail = [&](uint64_t run, const Error& why) {
    for (const size_t host : {0, 1}) finish(host, RunId(run), why);
    return client_.ended.back().error->message();
  };
  const Error behind(ErrorKind::kCancelled, "run: the run before it did not commit");
  for (int run = 1; run <= 5; ++run) next();
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 3u);
  EXPECT_EQ(fail(1, Error(ErrorKind::kInvalid, "the loss is not finite")),
            "the loss is not finite");
  before = {};
  next();  // A new chain, before the old one is through.
  for (uint64_t run = 2; run <= 5; ++run) {
    EXPECT_THAT(fail(run, behind),
                testing::EndsWith("since the run before it did not commit: the loss is not finite"))
        << run;
  }
  finish_everywhere(6);
  EXPECT_FALSE(client_.ended.back().error.has_value());
}

// The run before it has committed on that host, and goes on to its end on the other one.
TEST_F(RunsTest, ARunThatARefusingHostHasDoneEndsAsTheOtherHostsSay) {
  const PlanId plan = reactor_->run([&] {
    slice_ = controller_.allocate(session_, {4}).id;
    return controller_.compile(session_, counting(Mesh{{{"data", 4}}}), {slice_}, {3}).id;
  });
  RunId before;
  for (int run = 0; run < 2; ++run) {
    RunFrame frame{.plan = plan, .run = RunId((session_.value << 40) + ++names_), .after = before};
    frame.outputs = {ArrayId((session_.value << 40) + ++names_)};
    before = frame.run;
    controller_.on_message(session_, frame);
  }
  finish(0, RunId(1));
  refuse(0, RunId(2));
  const std::vector<CancelFrame> cancelled = executor_[1].all<CancelFrame>();
  ASSERT_EQ(cancelled.size(), 1u);
  EXPECT_EQ(cancelled[0].run, RunId(2));
  finish(1, RunId(1));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_FALSE(client_.ended[0].error.has_value());
  EXPECT_EQ(controller_.tables().slices.at(slice_, session_).version->value, 1u);
  finish(1, RunId(2), Error(ErrorKind::kCancelled, "run: its plan was given up"));
  ASSERT_EQ(client_.ended.size(), 2u);
  EXPECT_EQ(client_.ended[1].error->message(), "its program is suspended");
  EXPECT_EQ(controller_.tables().slices.at(slice_, session_).version->value, 1u);
}

TEST_F(RunsTest, AVeryLongTimeLimitDoesNotEndARun) {
  const PlanId plan = compile(session_);
  submit(session_, plan, std::numeric_limits<int64_t>::max());
  controller_.tick(reactor_->clock().now_ns());
  EXPECT_TRUE(executor_[0].all<CancelFrame>().empty());
}

TEST_F(RunsTest, StateIsReadBehindRunsThatWaitAndAheadOfLaterOnes) {
  const PlanId plan = compile(session_, 1);
  submit(session_, plan);
  submit(session_, plan);
  controller_.on_message(session_, HostTransferFrame{.request = 7,
                                                     .kind = HostTransferKind::kReadState,
                                                     .scope = {slice_.value},
                                                     .name = "w"});
  submit(session_, plan);
  const auto order = [this] {
    std::string text;
    for (const Message& message : executor_[0].received) {
      if (std::holds_alternative<PrepareFrame>(message)) text += "run ";
      if (std::holds_alternative<HostTransferFrame>(message)) text += "read ";
    }
    return text;
  };
  EXPECT_EQ(order(), "run ");
  for (uint64_t run = 1; run <= 3; ++run) {
    finish(0, RunId(run));
    finish(1, RunId(run));
  }
  EXPECT_EQ(order(), "run run read run ");
  EXPECT_EQ(client_.ended.size(), 3u);
}

TEST_F(RunsTest, RunsOfASliceAreAdmittedInTheOrderOfTheirSubmission) {
  const PlanId plan = compile(session_, 1);
  const PlanId other = reactor_->run([&] {
    return controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice_}, {1}).id;
  });
  submit(session_, plan);
  submit(session_, plan);
  submit(session_, other);
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u) << "the last shares states with them";
  finish_everywhere(1);
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 3u);
}

// Readers of states, and recovery, look at these with each run, however many others there are.
TEST_F(RunsTest, TheRunsOfASliceAreKnownWithoutALookAtThoseOfOthers) {
  const PlanId plan = compile(session_, 2);
  const SliceId slice = slice_;
  FakeClient other;
  const SessionId second = controller_.programs().add("other", "bob", other);
  const PlanId others = compile(second, 2);
  const SliceRecord& mine = controller_.tables().slices.at(slice, session_);
  for (int run = 0; run < 5; ++run) {
    submit(session_, plan);
    submit(second, others);
  }
  EXPECT_EQ(mine.runs->open, 5u);
  EXPECT_EQ(mine.runs->prepared.size(), 2u);
  for (uint64_t run = 1; run <= 10; ++run) finish_everywhere(run);
  EXPECT_EQ(mine.runs->open, 0u);
  EXPECT_TRUE(mine.runs->prepared.empty());
}

// Otherwise its hosts would hear of the run before they heard of what it takes.
TEST_F(RunsTest, ARunThatTakesAnothersOutputIsPreparedBehindItAlsoInAnotherSlice) {
  const PlanId maker = compile(session_, 1), taker = compile(session_, 1);
  submit(session_, maker);
  submit(session_, maker);
  RunFrame takes{.plan = taker, .run = RunId((session_.value << 40) + 1000)};
  takes.arguments = {{.input = 0, .array = last_output_}};
  takes.outputs = {ArrayId((session_.value << 40) + 1001)};
  controller_.on_message(session_, takes);
  EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), 1u);
  finish_everywhere(1);
  const std::vector<PrepareFrame> prepared = executor_[0].all<PrepareFrame>();
  ASSERT_EQ(prepared.size(), 3u);
  EXPECT_EQ(prepared[1].run.plan, maker);
  EXPECT_EQ(prepared[2].run.plan, taker);
}

}  // namespace
}  // namespace gangway
