// Tests the runs of a program that is brought back. Each test decides how hosts end them.
#include "controller/programs/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/error_of.h"
#include "tests/support/recovery/kept_program.h"

namespace gangway::recovery_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// The program never reaches the version of its first checkpoint.
class RecoveryTest : public KeptProgramTest {
 protected:
  RecoveryTest() { keep(1'000'000); }
};

TEST_F(RecoveryTest, ReportedRunsHaveNoTimeLimitWhenTheyAreRunAgain) {
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
  EXPECT_THAT(reported(), Contains(HasSubstr("the program goes on on")));
  EXPECT_THAT(client_.ended, SizeIs(kRuns)) << "none is told again";
}

TEST_F(RecoveryTest, TheTimeLimitOfAnUnreportedRunBeginsWhenItsTurnComes) {
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

TEST_F(RecoveryTest, APutBehindARecoveryNamesThePlanAsItsHostsDo) {
  lose_host();
  submit();
  const PlanId there = executors_[host()].all<PrepareFrame>().back().run.plan;
  EXPECT_NE(there, plan_);
  controller_.on_message(session_,
                         HostTransferFrame{.request = 1,
                                           .kind = HostTransferKind::kPut,
                                           .at = {.segment = {.bytes = 4}, .offset = 0, .bytes = 4},
                                           .array = ArrayId((session_.value << 40) + 1000),
                                           .plan = plan_});
  EXPECT_EQ(executors_[host()].all<HostTransferFrame>().back().plan, there);
}

TEST_F(RecoveryTest, AReportedRunCantBeCancelledAnyMore) {
  const RunId run = submit();
  finish();
  lose_host();
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kCancelled, "by its user")});
  EXPECT_THAT(executors_[host()].all<CancelFrame>(), IsEmpty());
  finish();
  EXPECT_EQ(version(), 1u);
}

TEST_F(RecoveryTest, AProgramEndsRatherThanGoOnWithoutAReportedRun) {
  for (int i = 0; i < 2; ++i) {
    submit();
    finish();
  }
  submit();
  lose_host();
  finish();
  finish(Error(ErrorKind::kInvalid, "the loss is not finite"));
  EXPECT_THAT(reported(),
              Contains(HasSubstr("can't be brought back: a run that had ended well did not "
                                 "when it was run again: the loss is not finite")));
  EXPECT_THAT(reported(), Not(Contains(HasSubstr("the program goes on on"))));
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
  EXPECT_THAT(reported(), Contains(HasSubstr("the program goes on on")));
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

// The reported run makes the array again, and has ended before the other is submitted.
TEST_F(RecoveryTest, ARunMayTakeAResultOfAReportedRunThatItsClientHasFreed) {
  run_to_its_end();
  const ArrayId result(last_.value + 1);
  submit_with(result, plan_, last_);
  controller_.on_message(session_, FreeFrame{{result}});
  lose_host();
  finish();
  ASSERT_THAT(prepared(), SizeIs(1));
  finish();
  ASSERT_THAT(client_.ended, SizeIs(2));
  EXPECT_FALSE(client_.ended[1].error) << client_.ended[1].error->what();
  EXPECT_EQ(version(), 2u);
  EXPECT_EQ(controller_.counts().arrays, 1u) << "nobody holds the first result";
}

TEST_F(RecoveryTest, ARunThatWaitsKeepsItsArgumentsWhenItsClientDetaches) {
  run_to_its_end();
  const ArrayId result(last_.value + 1);
  lose_host();
  submit_with(result, plan_, last_);
  controller_.detach(session_);
  finish();
  ASSERT_THAT(prepared(), SizeIs(1));
  finish();
  EXPECT_EQ(version(), 2u);
  EXPECT_EQ(controller_.counts().arrays, 0u);
}

TEST_F(RecoveryTest, GetsThatWaitGoWhenTheirClientDetachesAndWhatPutsMakeIsFreed) {
  run_to_its_end();
  lose_host();
  const ArrayId array((session_.value << 40) + 1000);
  const ClientBytes at{.segment = {.bytes = 4}, .bytes = 4};
  controller_.on_message(
      session_,
      HostTransferFrame{
          .request = 1, .kind = HostTransferKind::kPut, .at = at, .array = array, .plan = plan_});
  controller_.on_message(
      session_,
      HostTransferFrame{.request = 2, .kind = HostTransferKind::kGet, .at = at, .array = array});
  controller_.detach(session_);
  finish();
  const auto transfers = executors_[host()].all<HostTransferFrame>();
  ASSERT_THAT(transfers, SizeIs(1));
  EXPECT_EQ(transfers[0].kind, HostTransferKind::kPut);
  end_transfers();
  EXPECT_EQ(controller_.counts().arrays, 0u);
}

// It is brought back only once it is resumed.
TEST_F(RecoveryTest, ASuspendedProgramThatLostAHostMayBeSuspendedOnceMore) {
  run_to_its_end();
  const auto suspend = [&] {
    return reactor_->run([&] { return controller_.suspend_program(session_, "ada"); });
  };
  suspend();
  lose_host();
  suspend();
  EXPECT_TRUE(controller_.program_counts()[0].suspended);
  reactor_->run([&] { controller_.resume_program(session_, "ada"); });
  reactor_->run_ready();
  finish();
  EXPECT_EQ(version(), 1u);
}

// A part of the states lay on the host that is lost.
TEST_F(RecoveryTest, NobodyIsShownTheStatesOfAProgramThatItsRunsCantBringBack) {
  run_to_its_end();
  const auto transfer = [&](uint64_t request, HostTransferKind kind) {
    controller_.on_message(
        session_,
        HostTransferFrame{.request = request, .kind = kind, .scope = {slice_.value}, .name = "w"});
  };
  transfer(7, HostTransferKind::kWriteState);
  end_transfers();
  const SharedStateTable::Request later{.slice = slice_,
                                        .version = StateVersion(5),
                                        .segment = {.bytes = 64},
                                        .parts = {{"w", 0, 4}}};
  std::optional<Error> of_reader;
  reactor_
      ->spawn("read",
              [&] { of_reader = controller_.tables().shared_states.read(session_, later).error; })
      .detach();
  reactor_->run_ready();
  lose_host();
  const auto expect_refused = [](const std::optional<Error>& error) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error->what(), HasSubstr("can't be brought back: its client has written states"));
  };
  expect_refused(of_reader);
  expect_refused(error_of([&] { controller_.tables().shared_states.open(session_, "tester"); }));
  expect_refused(error_of([&] { compile(counting()); }));
  expect_refused(error_of([&] { keep(5); }));
  uint64_t request = 7;
  for (const HostTransferKind kind :
       {HostTransferKind::kReadState, HostTransferKind::kWriteState}) {
    transfer(++request, kind);
    const auto* const done = std::get_if<HostTransferDoneFrame>(&client_.received.back());
    ASSERT_NE(done, nullptr);
    expect_refused(done->error);
  }
}

// A program on four devices, of two hosts. With a state, its runs change it.
Program on_two_hosts(bool has_state) {
  ProgramBuilder b(has_state ? "training" : "evaluating", Mesh{{{"data", 4}}});
  if (has_state) {
    const Value w = b.state("w", zeros(f32()));
    b.update(w, w + 1.0);
  }
  b.output("y", b.input("x", f32()) + 1.0);
  return b.build();
}

class PastRunsTest : public KeptProgramTest {
 protected:
  PastRunsTest() : KeptProgramTest(4, on_two_hosts(true)) {}

  // `run` is the controller's name of the run: its number among all runs.
  void finish_everywhere(uint64_t run) {
    for (const HostId host : hosts_) controller_.on_message(host, RunDoneFrame{.run = RunId(run)});
    reactor_->run_ready();
  }
};

// The run read states from before the checkpoint that is written while the program is brought back,
// and these do not come again.
TEST_F(PastRunsTest, ARunThatALostHostFailedBeforeANewCheckpointIsReported) {
  const PlanId evaluating = compile(on_two_hosts(false));
  for (FakeExecutor& executor : executors_) executor.store.writing.emplace();
  keep(2);
  reactor_->run_ready();
  const RunId past = submit(evaluating);
  for (int i = 0; i < 2; ++i) submit(plan_);
  for (const uint64_t run : {2, 3}) finish_everywhere(run);
  end_transfers();
  const auto writer = std::ranges::find_if(
      executors_, [](const FakeExecutor& executor) { return !executor.store.written.empty(); });
  ASSERT_NE(writer, executors_.end()) << "version 2 is being written";
  ASSERT_THAT(client_.ended, SizeIs(2));
  // The program is not brought back until this copy has ended.
  controller_.on_message(session_, HostTransferFrame{.request = 7,
                                                     .kind = HostTransferKind::kReadState,
                                                     .scope = {slice_.value},
                                                     .name = "w"});
  const std::vector<DeviceRef> devices = controller_.tables().slices.at(slice_, session_).devices;
  const HostId keeps = hosts_[static_cast<size_t>(writer - executors_.begin())];
  const auto lost =
      std::ranges::find_if(devices, [&](const DeviceRef& device) { return device.host != keeps; });
  ASSERT_NE(lost, devices.end());
  lose(lost->host);
  EXPECT_THAT(client_.ended, SizeIs(2)) << "it may come again";
  writer->store.writing->set();
  reactor_->run_ready();
  end_transfers();
  ASSERT_THAT(client_.ended, SizeIs(3));
  EXPECT_EQ(client_.ended[2].run, past);
  ASSERT_TRUE(client_.ended[2].error);
  EXPECT_EQ(client_.ended[2].error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(client_.ended[2].error->what(),
              HasSubstr("the states that it read are past: enqueue it again"));
}

// It was catching up on two hosts, and lies nowhere when the second one of them is lost.
TEST_F(PastRunsTest, AProgramThatLosesAllItsHostsWhileItCatchesUpLosesNoStates) {
  keep(1'000'000);
  submit();
  finish_everywhere(1);
  const SliceRecord& slice = controller_.tables().slices.at(slice_, session_);
  lose(slice.devices.at(0).host);
  ASSERT_THAT(slice.devices, SizeIs(4));
  const HostId first = slice.devices.front().host, second = slice.devices.back().host;
  ASSERT_NE(first, second);
  lose(first);
  ASSERT_THAT(slice.devices, IsEmpty());
  lose(second);
  for (int i = 0; i < 2; ++i) add_host();
  reactor_->run_ready();
  ASSERT_THAT(slice.devices, SizeIs(4));
  finish_everywhere(3);  // The run was cut off the second time.
  EXPECT_EQ(slice.version->value, 1u);
  EXPECT_THAT(reported(), Contains(HasSubstr("the program goes on on")));
  EXPECT_THAT(reported(), Not(Contains(HasSubstr("goes on without its states"))));
  compile(on_two_hosts(true));  // Throws where its state is lost.
}

}  // namespace
}  // namespace gangway::recovery_test
