// Tests the runs of a program that gets more room. Each test decides how hosts end them.
#include "controller/programs/runs_again.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "ir/plan/rows_overflow.h"
#include "tests/support/error_of.h"
#include "tests/support/recovery/kept_program.h"
#include "tests/support/recovery/routed_rows.h"

namespace gangway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Rows go to experts on two devices, each of which has room for its own rows.
Program routed(const std::string& name = "routed") {
  const AxisPlacements by_expert = {{"expert", shard(0)}};
  ProgramBuilder b(name, Mesh{{{"expert", 2}}});
  const Value x = b.input("x", f32({1}));
  const Value rows = b.state("rows", zeros(f32({4, 6, 3})), by_expert);
  const Value choice = b.state("choice", zeros(i32({4, 6, 1})), by_expert);
  const Value w = b.state("w", zeros(f32({4, 3, 5})), by_expert);
  const Value y = through_experts(rows, choice, w, 1);
  b.update(w, w + 1.0);
  b.output("y", sum(y) + sum(x));
  return b.build();
}

class RunsAgainTest : public KeptProgramTest {
 protected:
  RunsAgainTest() : KeptProgramTest(2, routed()) {}

  void overflow() { finish(rows_overflow(13, 12)); }
  // The run before it did not commit.
  void not_committed() { finish(Error(ErrorKind::kCancelled, "not committed")); }
  // Ends all runs that hosts have prepared and not answered, and returns their number.
  size_t finish_everywhere() {
    size_t count = 0;
    for (size_t i = 0; i < executors_.size(); ++i) {
      for (const PrepareFrame& frame : executors_[i].all<PrepareFrame>()) {
        if (!answered_.insert(frame.run.run).second) continue;
        controller_.on_message(hosts_[i], RunDoneFrame{.run = frame.run.run});
        ++count;
      }
    }
    reactor_->run_ready();
    return count;
  }
  size_t installs() { return static_cast<size_t>(executors_[host()].installs); }
  std::vector<RunId> ended() const {
    std::vector<RunId> runs;
    for (const RunDoneFrame& done : client_.ended) runs.push_back(done.run);
    return runs;
  }
  void cancel(RunId run) {
    controller_.on_message(session_,
                           CancelFrame{run, Error(ErrorKind::kCancelled, "run: cancelled")});
    reactor_->run_ready();
  }
  // Hosts do not answer the next installation, until it is answered.
  void hold_install() {
    for (FakeExecutor& executor : executors_) executor.commit.emplace();
  }
  // The program's host alone has not answered.
  void answer_install_elsewhere() {
    for (size_t i = 0; i < executors_.size(); ++i) {
      if (i != host()) executors_[i].commit.reset();
    }
  }
  void answer_install(const std::optional<Error>& error = {}) {
    for (FakeExecutor& executor : executors_) {
      Promise<void> commit = std::move(*executor.commit);
      executor.commit.reset();
      error ? commit.fail(*error) : commit.set();
    }
    reactor_->run_ready();
  }
  // No larger plan could be installed; the last one is being installed again for a run that was
  // cancelled.
  void begin_to_install_the_last_plan() {
    submit();
    hold_install();
    overflow();
    answer_install(Error(ErrorKind::kOverloaded, "no room"));
    hold_install();
    const RunId cancelled = submit(plan_);
    reactor_->run_ready();
    cancel(cancelled);
  }
};

TEST_F(RunsAgainTest, ARunThatOverflowedRunsAgainWithThoseBehindItAndIsToldOnce) {
  const size_t before = installs();
  const RunId first = submit(), second = submit();
  EXPECT_THAT(prepared(), SizeIs(2));
  overflow();
  EXPECT_THAT(client_.ended, IsEmpty());
  not_committed();
  EXPECT_THAT(client_.ended, IsEmpty());
  EXPECT_EQ(installs(), before + 1);
  EXPECT_THAT(reported(), Contains(HasSubstr("bound 1 became 2 at runs_again_test.cc")));
  EXPECT_THAT(prepared(), SizeIs(2));
  finish();
  finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
  for (const RunDoneFrame& done : client_.ended) EXPECT_FALSE(done.error.has_value());
  EXPECT_EQ(version(), 2u);
  EXPECT_EQ(controller_.counts().runs, 0u);
}

TEST_F(RunsAgainTest, ARunThatFailsOtherwiseIsToldWithThoseBehindItAndNothingIsInstalled) {
  const size_t before = installs();
  const RunId first = submit(), second = submit();
  finish(Error(ErrorKind::kInvalid, "sqrt of -1"));
  overflow();
  EXPECT_THAT(ended(), ElementsAre(first, second));
  EXPECT_THAT(client_.ended[1].error->message(), HasSubstr("nothing was committed"));
  EXPECT_EQ(installs(), before);
}

TEST_F(RunsAgainTest, RunsThatAreSentWhileThePlanIsInstalledComeBehindThose) {
  const RunId first = submit();
  hold_install();
  overflow();
  const RunId second = submit();
  EXPECT_THAT(prepared(), IsEmpty());
  EXPECT_EQ(controller_.counts().runs, 2u);
  answer_install();
  EXPECT_THAT(prepared(), SizeIs(2));
  finish();
  finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
}

TEST_F(RunsAgainTest, ARunCancelledBeforeItRunsAgainSaysSoAndSoDoThoseBehindIt) {
  std::vector<RunId> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(submit());
  hold_install();
  overflow();
  not_committed();
  not_committed();
  cancel(runs[1]);
  EXPECT_THAT(ended(), ElementsAre(runs[1], runs[2]));
  EXPECT_EQ(client_.ended[0].error->message(), "run: cancelled");
  EXPECT_THAT(client_.ended[1].error->message(),
              HasSubstr("nothing was committed, since the run before it did not commit: run: "
                        "cancelled"));
  const RunId late = submit();  // Its client does not know yet.
  answer_install();
  finish();
  EXPECT_THAT(ended(), ElementsAre(runs[1], runs[2], runs[0], late));
  EXPECT_TRUE(client_.ended[3].error.has_value());
  EXPECT_EQ(version(), 1u);
}

TEST_F(RunsAgainTest, WhereTheLargerPlanCantBeInstalledItsRunsFailAndTheNextUsesTheLast) {
  const RunId first = submit();
  hold_install();
  overflow();
  answer_install(Error(ErrorKind::kOverloaded, "no room"));
  EXPECT_THAT(ended(), ElementsAre(first));
  EXPECT_THAT(client_.ended[0].error->message(), HasSubstr("no room"));
  EXPECT_THAT(prepared(), IsEmpty());
  const size_t before = installs();
  submit(plan_);
  reactor_->run_ready();
  EXPECT_EQ(installs(), before + 1);
  finish();
  ASSERT_THAT(client_.ended, SizeIs(2));
  EXPECT_FALSE(client_.ended[1].error.has_value());
}

TEST_F(RunsAgainTest, RunsOfAnotherExecutableOnTheSliceWaitForARunThatMayOverflow) {
  const PlanId other = compile(counting({"count"}));
  const RunId first = submit();
  const RunId second = submit(other);
  EXPECT_THAT(prepared(), SizeIs(1));
  finish();
  reactor_->run_ready();
  EXPECT_THAT(prepared(), SizeIs(1));
  finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
}

TEST_F(RunsAgainTest, StatesAreReadBehindARunThatMayOverflow) {
  submit();
  controller_.on_message(session_, HostTransferFrame{.request = 1,
                                                     .kind = HostTransferKind::kReadState,
                                                     .scope = {slice_.value},
                                                     .name = "w"});
  reactor_->run_ready();
  EXPECT_EQ(end_transfers(), 0u);
  overflow();
  EXPECT_EQ(end_transfers(), 0u);
  finish();
  reactor_->run_ready();
  EXPECT_GT(end_transfers(), 0u);
}

TEST_F(RunsAgainTest, ASessionThatClosesMeanwhileLeavesNothing) {
  submit();
  hold_install();
  overflow();
  controller_.session_closed(session_);
  answer_install();
  EXPECT_EQ(controller_.counts().total(), 0u);
}

TEST_F(RunsAgainTest, AProgramThatLosesAHostWhileARunIsToRunAgainRunsItOnce) {
  keep(1'000'000);
  const RunId first = submit();
  hold_install();
  overflow();
  const RunId second = submit();
  answer_install_elsewhere();
  lose_host();
  while (!prepared().empty()) finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
  for (const RunDoneFrame& done : client_.ended) EXPECT_FALSE(done.error.has_value());
  EXPECT_EQ(version(), 2u);
}

// Otherwise it could commit before the first one, which would commit behind it.
TEST_F(RunsAgainTest, ARunThatBeginsANewChainWaitsForRunsThatMayOverflow) {
  const RunId first = submit();
  const RunId second = submit(plan_);
  EXPECT_THAT(prepared(), SizeIs(1));
  overflow();
  EXPECT_THAT(prepared(), SizeIs(1));
  finish();
  EXPECT_THAT(prepared(), SizeIs(1));
  finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
  EXPECT_EQ(version(), 2u);
}

TEST_F(RunsAgainTest, ResultsOfARunThatWaitedAreThereAfterAHostWasLost) {
  const PlanId other = compile(counting({"count"}));
  keep(1'000'000);
  const RunId first = submit();
  const RunId second = submit(other);
  lose_host();
  while (!prepared().empty()) finish();
  EXPECT_THAT(ended(), ElementsAre(first, second));
  const ArrayId result(second.value + 1);
  end_transfers();
  controller_.on_message(session_,
                         HostTransferFrame{.request = 1,
                                           .kind = HostTransferKind::kGet,
                                           .at = {.segment = {.bytes = 4}, .offset = 0, .bytes = 4},
                                           .array = result});
  reactor_->run_ready();
  const auto refused = all_of<HostTransferDoneFrame>(client_.received);
  EXPECT_EQ(end_transfers(), 1u) << (refused.empty() ? "" : refused.back().error->what());
}

// The run that makes the array has been submitted, and the one that takes it still waits.
TEST_F(RunsAgainTest, ARunThatWaitsKeepsAResultThatIsMadeMeanwhile) {
  const PlanId other = compile(counting({"count"}));
  submit();
  const RunId makes = submit(other);
  submit(plan_);
  const ArrayId result(makes.value + 1);
  submit_with(result, other);
  finish();
  ASSERT_THAT(prepared(), SizeIs(2));
  controller_.on_message(session_, FreeFrame{{result}});
  while (!prepared().empty()) finish();
  ASSERT_THAT(client_.ended, SizeIs(4));
  for (const RunDoneFrame& done : client_.ended)
    EXPECT_FALSE(done.error.has_value()) << done.error->what();
}

// The run on the other slice waits with an array that nobody else holds.
TEST_F(RunsAgainTest, ARunOfAnotherSliceThatWaitsKeepsItsArgumentsWhenAHostIsLost) {
  const SliceId far = reactor_->run([&] { return controller_.allocate(session_, {2}).id; });
  const PlanId on_far = reactor_->run(
      [&] { return controller_.compile(session_, counting({"far"}), {far}, {8}).id; });
  keep(1'000'000);
  const RunId created = submit(on_far);
  finish_everywhere();
  const ArrayId array(created.value + 1);
  const RunId first = submit();
  hold_install();
  overflow();
  const RunId takes = submit_with(array, on_far);
  controller_.on_message(session_, FreeFrame{{array}});
  EXPECT_EQ(controller_.counts().runs, 2u) << "both wait";
  answer_install_elsewhere();
  lose_host();
  while (finish_everywhere() > 0) {
  }
  EXPECT_THAT(ended(), testing::UnorderedElementsAre(created, first, takes));
  for (const RunDoneFrame& done : client_.ended)
    EXPECT_FALSE(done.error.has_value()) << done.error->what();
  EXPECT_EQ(controller_.counts().arrays, 2u) << "nobody holds the argument any more";
}

// A run, a get of its result and the free of that wait together.
TEST_F(RunsAgainTest, AGetOfTheResultOfARunThatWaitedIsAnsweredAfterAHostWasLost) {
  keep(1'000'000);
  const RunId first = submit();
  hold_install();
  overflow();
  const RunId makes = submit(plan_);
  const ArrayId result(makes.value + 1);
  controller_.on_message(session_,
                         HostTransferFrame{.request = 77,
                                           .kind = HostTransferKind::kGet,
                                           .at = {.segment = {.bytes = 4}, .offset = 0, .bytes = 4},
                                           .array = result});
  controller_.on_message(session_, FreeFrame{{result}});
  EXPECT_EQ(controller_.counts().runs, 2u) << "both wait";
  answer_install_elsewhere();
  lose_host();
  while (!prepared().empty()) finish();
  EXPECT_THAT(ended(), ElementsAre(first, makes));
  end_transfers();
  const auto answers = all_of<HostTransferDoneFrame>(client_.received);
  const auto answer = std::ranges::find(answers, 77u, &HostTransferDoneFrame::request);
  ASSERT_NE(answer, answers.end());
  EXPECT_FALSE(answer->error.has_value()) << answer->error->what();
  EXPECT_EQ(controller_.counts().arrays, 1u) << "the free came behind the get";
}

// Such runs are refused when their turn comes.
TEST_F(RunsAgainTest, TimeLimitsOfRunsOfAnUnknownExecutableEndNothing) {
  submit();
  hold_install();
  overflow();
  const RunId unknown = submit(PlanId(9999), {}, 1);
  pass_ms(100);
  EXPECT_THAT(ended(), IsEmpty());
  answer_install();
  ASSERT_THAT(ended(), ElementsAre(unknown));
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kInvalid);
}

TEST_F(RunsAgainTest, AProgramMayBeRepeatedAfterALargerPlanCouldNotBeInstalled) {
  submit();
  hold_install();
  overflow();
  answer_install(Error(ErrorKind::kOverloaded, "no room"));
  const size_t before = installs();
  reactor_->run([&] {
    controller_.repeat(session_, {.number = 1,
                                  .plan = plan_,
                                  .steps = 1,
                                  .inputs = {{0, std::vector<std::byte>(4)}},
                                  .first = RunId((session_.value << 40) + 1000)});
  });
  reactor_->run_ready();
  EXPECT_EQ(installs(), before + 1);
  finish();
  EXPECT_EQ(controller_.programs().open(session_).repetition(plan_).done, 1);
}

TEST_F(RunsAgainTest, AnExecutableThatIsReleasedWhileItsCancelledRunWasToRunAgainGoes) {
  const RunId run = submit();
  hold_install();
  overflow();
  cancel(run);
  EXPECT_THAT(ended(), ElementsAre(run));
  controller_.path().release_plan(plan_);
  answer_install();
  EXPECT_EQ(controller_.counts().plans, 0u);
  // Others of the program get more room none the less.
  submit(compile(routed()));
  overflow();
  EXPECT_THAT(prepared(), SizeIs(1));
}

TEST_F(RunsAgainTest, ARunWhosePlanComesBackWaitsForARunThatBeganMeanwhile) {
  const PlanId other = compile(routed("other"));
  begin_to_install_the_last_plan();
  const RunId began = submit(other), behind = submit(plan_);
  answer_install();
  ASSERT_THAT(prepared(), SizeIs(1));
  overflow();
  finish();
  finish();
  ASSERT_THAT(ended(), SizeIs(4));
  EXPECT_EQ(ended()[2], began);
  EXPECT_EQ(ended()[3], behind);
}

TEST_F(RunsAgainTest, RunsAndPutsWaitWhileTheLastPlanIsInstalledAlsoIfNoOtherRunWaits) {
  begin_to_install_the_last_plan();
  const RunId behind = submit(plan_);
  controller_.on_message(session_,
                         HostTransferFrame{.request = 1,
                                           .kind = HostTransferKind::kPut,
                                           .at = {.segment = {.bytes = 4}, .bytes = 4},
                                           .array = ArrayId((session_.value << 40) + 1000),
                                           .plan = plan_});
  EXPECT_THAT(prepared(), IsEmpty());
  EXPECT_THAT(executors_[host()].all<HostTransferFrame>(), IsEmpty());
  answer_install();
  EXPECT_THAT(executors_[host()].all<HostTransferFrame>(), SizeIs(1));
  finish();
  ASSERT_THAT(ended(), SizeIs(3));
  EXPECT_EQ(ended()[2], behind);
  EXPECT_FALSE(client_.ended[2].error.has_value()) << client_.ended[2].error->what();
}

TEST_F(RunsAgainTest, TimeLimitsEndRunsBehindOneThatMayOverflow) {
  const PlanId other = compile(counting({"count"}));
  submit();
  const RunId behind = submit(20), waits = submit(other, {}, 20);
  for (int i = 0; i < 30; ++i) pass_ms(100);
  EXPECT_THAT(ended(), testing::UnorderedElementsAre(behind, waits));
  for (const RunDoneFrame& done : client_.ended)
    EXPECT_THAT(done.error->message(), HasSubstr("not done within its limit of 20 ms"));
  finish();
}

TEST_F(RunsAgainTest, TheTimeLimitOfARunCountsFromWhenItWasSentAlsoIfItRunsAgain) {
  const RunId run = submit(1000);
  for (int i = 0; i < 6; ++i) pass_ms(100);
  overflow();
  ASSERT_THAT(prepared(), SizeIs(1)) << "it runs again";
  for (int i = 0; i < 6; ++i) pass_ms(100);
  const std::vector<CancelFrame> cancels = executors_[host()].all<CancelFrame>();
  ASSERT_THAT(cancels, SizeIs(1));
  finish(cancels[0].error);
  ASSERT_THAT(ended(), ElementsAre(run));
  EXPECT_THAT(client_.ended[0].error->message(), HasSubstr("not done within its limit of 1000 ms"));
}

TEST_F(RunsAgainTest, ARunThatIsPastItsTimeLimitEndsWhileItsPlanIsInstalled) {
  const RunId run = submit(20);
  hold_install();
  overflow();
  for (int i = 0; i < 3; ++i) pass_ms(100);
  ASSERT_THAT(ended(), ElementsAre(run));
  EXPECT_THAT(client_.ended[0].error->message(),
              HasSubstr("not done within its limit of 20 ms: it was to run again with more room"));
  answer_install();
  EXPECT_THAT(prepared(), IsEmpty());
}

TEST_F(RunsAgainTest, ARunThatEndedAsCancelledDoesNotCommitAfterAHostWasLost) {
  keep(1'000'000);
  submit();
  cancel(submit());
  const RunId there = prepared().at(1);
  answered_.insert(there);
  controller_.on_message(
      hosts_[host()], RunDoneFrame{.run = there, .error = Error(ErrorKind::kCancelled, "stopped")});
  lose_host();
  while (!prepared().empty()) finish();
  EXPECT_EQ(version(), 1u);
}

TEST_F(RunsAgainTest, AHostThatEndsWhileItInstallsDoesNotHoldRunsForEver) {
  submit();
  hold_install();
  overflow();
  answer_install(Error(ErrorKind::kCancelled, "its executor ends"));
  EXPECT_THAT(client_.ended, SizeIs(1));
}

TEST_F(RunsAgainTest, AHostThatIsLostWhileAPlanIsLackingIsNamed) {
  submit();
  hold_install();
  overflow();
  answer_install(Error(ErrorKind::kOverloaded, "no room"));
  lose_host();
  submit(plan_);
  reactor_->run_ready();
  ASSERT_THAT(client_.ended, SizeIs(2));
  EXPECT_EQ(client_.ended[1].error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(client_.ended[1].error->what(), HasSubstr("its connection ended"));
}

TEST_F(RunsAgainTest, AnOverflowOfAPlanThatHasRoomForAllIsAnError) {
  submit();
  overflow();
  overflow();
  ASSERT_THAT(client_.ended, SizeIs(1));
  ASSERT_TRUE(client_.ended[0].error.has_value());
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kOverflow);
  EXPECT_THAT(prepared(), IsEmpty());
}

}  // namespace
}  // namespace gangway
