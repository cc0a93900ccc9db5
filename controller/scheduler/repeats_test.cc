#include "controller/scheduler/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "protocol/messages.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class RepeatsTest : public ControllerTest {
 protected:
  RepeatRequest request(PlanId plan, int64_t steps) {
    ++number_;
    RepeatRequest asked{.number = number_, .plan = plan, .steps = steps};
    asked.inputs.push_back({0, Schedule::linear(1, 1)});
    asked.first = RunId((session_.value << 40) + 100'000 * number_);
    return asked;
  }
  void pass() {
    reactor_->run(
        [&] { WaitQueue().wait_until_ns("for fibers to run", reactor_->clock().now_ns() + 1000); });
  }
  size_t prepared() const { return executor_[0].all<PrepareFrame>().size(); }
  std::string refused(SessionId session, const RepeatRequest& asked) {
    const Error error = error_of([&] { controller_.repeat(session, asked); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.message();
  }

  uint64_t number_ = 0;
};

// The square of each step's number, in a form that a record may have.
EarlierInput squares(uint32_t input) {
  EarlierSchedule::List values;
  for (int step = 0; step < 9; ++step) values.push_back(step * step);
  return {input, std::make_shared<const EarlierSchedule>(values)};
}

TEST_F(RepeatsTest, ARepetitionKeepsAsManyStepsInFlightAsThePlanAllows) {
  const PlanId plan = compile(session_, 2);
  const RepeatRequest asked = request(plan, 10);
  controller_.repeat(session_, asked);
  controller_.repeat(session_, asked);  // Asked again: it is begun once.
  for (uint64_t run = 1; run <= 10; ++run) {
    pass();
    EXPECT_EQ(prepared(), std::min<size_t>(10, run + 1));
    EXPECT_FALSE(controller_.programs().open(session_).repetition(plan).ended);
    finish_everywhere(run);
  }
  pass();
  const RepeatProgress progress = controller_.programs().open(session_).repetition(plan);
  EXPECT_TRUE(progress.ended);
  EXPECT_FALSE(progress.error);
  EXPECT_EQ(progress.done, 10);
  EXPECT_EQ(controller_.counts().runs + controller_.counts().arrays, 0u);
  EXPECT_TRUE(client_.ended.empty()) << "it has not asked for these runs one by one";
  EXPECT_EQ(controller_.program_counts()[0].credits_used, 0u);
}

TEST_F(RepeatsTest, AStepIsARunWithTheInputsOfItsNumber) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 3));
  pass();
  const std::vector<PrepareFrame> steps = executor_[0].all<PrepareFrame>();
  ASSERT_EQ(steps.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const auto expected = static_cast<float>(i + 1);
    ASSERT_EQ(steps[i].run.arguments.at(0).bytes.size(), sizeof(float));
    EXPECT_EQ(std::memcmp(steps[i].run.arguments[0].bytes.data(), &expected, sizeof(float)), 0);
  }
}

TEST_F(RepeatsTest, ValuesOfAFormThatOnlyRecordsHaveAreGivenByTheNumberOfTheStep) {
  const PlanId plan = compile(session_, 2);
  RepeatRequest asked = request(plan, 9);
  asked.begin = 7;
  asked.inputs.clear();
  asked.earlier = {squares(0)};
  controller_.repeat(session_, asked);
  pass();
  const std::vector<PrepareFrame> steps = executor_[0].all<PrepareFrame>();
  ASSERT_EQ(steps.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const auto expected = static_cast<float>((i + 7) * (i + 7));
    ASSERT_EQ(steps[i].run.arguments.at(0).bytes.size(), sizeof(float));
    EXPECT_EQ(std::memcmp(steps[i].run.arguments[0].bytes.data(), &expected, sizeof(float)), 0);
  }
}

TEST_F(RepeatsTest, StepsThatHaveCommittedUnderAnEarlierControllerAreNotEnqueued) {
  const PlanId plan = compile(session_, 2);
  RepeatRequest asked = request(plan, 10);
  asked.begin = 11;
  EXPECT_THAT(refused(session_, asked), HasSubstr("11 of its 10 steps can't have committed"));
  asked.begin = 8;
  asked.position = 100;
  controller_.repeat(session_, asked);
  pass();
  EXPECT_EQ(controller_.programs().open(session_).repetition(plan).done, 8);
  const std::vector<PrepareFrame> steps = executor_[0].all<PrepareFrame>();
  ASSERT_EQ(steps.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const auto expected = static_cast<float>(i + 9);
    EXPECT_EQ(std::memcmp(steps[i].run.arguments.at(0).bytes.data(), &expected, sizeof(float)), 0);
  }
  for (uint64_t run = 1; run <= 2; ++run) finish_everywhere(run);
  pass();
  const RepeatProgress progress = controller_.programs().open(session_).repetition(plan);
  EXPECT_TRUE(progress.ended);
  EXPECT_EQ(progress.done, 10);
  EXPECT_EQ(progress.position, 110u);
  // All steps have committed before.
  asked = request(plan, 3);
  asked.begin = 3;
  controller_.repeat(session_, asked);
  EXPECT_TRUE(controller_.programs().open(session_).repetition(plan).ended);
  EXPECT_EQ(controller_.programs().open(session_).wait_for_repetition(plan).done, 3);
}

// A record of such a program could not be read again.
TEST_F(RepeatsTest, RepetitionsThatWouldCountPositionsTooFarAreRefused) {
  const PlanId plan = compile(session_, 2);
  RepeatRequest asked = request(plan, 10);
  asked.position = kSourcePositionMax - 10;
  EXPECT_THAT(refused(session_, asked),
              HasSubstr(cat("expected positions of sources below ", kSourcePositionMax, ", got ",
                            asked.position, " in its first step")));
  asked.position = kSourcePositionMax - 11;
  controller_.repeat(session_, asked);
}

TEST_F(RepeatsTest, TheFirstStepThatFailsEndsTheRepetition) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 10));
  pass();
  for (const size_t host : {0, 1}) finish(host, RunId(1), Error(ErrorKind::kInvalid, "no number"));
  finish_everywhere(2);
  pass();
  const RepeatProgress progress = controller_.programs().open(session_).repetition(plan);
  EXPECT_TRUE(progress.ended);
  ASSERT_TRUE(progress.error);
  EXPECT_THAT(progress.error->what(), HasSubstr("no number"));
  EXPECT_EQ(prepared(), 2u);
}

TEST_F(RepeatsTest, AfterACancelNoStepIsEnqueued) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 10));
  pass();
  controller_.programs().open(session_).cancel_repetition(plan);
  EXPECT_FALSE(controller_.programs().open(session_).repetition(plan).ended);
  finish_everywhere(1);
  finish_everywhere(2);
  pass();
  const RepeatProgress progress = controller_.programs().open(session_).repetition(plan);
  EXPECT_TRUE(progress.ended);
  EXPECT_EQ(progress.done, 2);
  EXPECT_EQ(progress.position, 2u);
  controller_.repeat(session_, request(plan, 1));
  pass();
  EXPECT_EQ(prepared(), 3u);
}

TEST_F(RepeatsTest, StepsThatEndAfterTheirPlanWasReleasedTakeNoCreditsOfTheClient) {
  const PlanId plan = compile(session_, 2);
  reactor_->run([&] {
    controller_.programs().once(session_, {.number = 900}, [&](const StopToken&) { return plan; });
  });
  controller_.repeat(session_, request(plan, 10));
  pass();
  controller_.on_message(session_, ReleaseFrame{{900}});
  finish_everywhere(1);
  finish_everywhere(2);
  pass();
  EXPECT_EQ(controller_.counts().plans + controller_.counts().runs, 0u);
  EXPECT_EQ(controller_.program_counts()[0].credits_used, 0u);
  EXPECT_TRUE(client_.ended.empty()) << "it has not asked for these runs one by one";
}

TEST_F(RepeatsTest, NothingIsLeftOfARepetitionWhenItsSessionEnds) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 1'000'000));
  pass();
  controller_.session_closed(session_);
  finish_everywhere(1);
  finish_everywhere(2);
  pass();
  EXPECT_EQ(controller_.counts().total(), 0u);
  EXPECT_EQ(prepared(), 2u);
}

TEST_F(RepeatsTest, CallsThatWaitForARepetitionEndWithItsProgram) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 1'000'000));
  pass();
  std::optional<Error> why;
  Fiber waits = reactor_->spawn("wait", [&] {
    why = error_of([&] { controller_.programs().open(session_).wait_for_repetition(plan); });
  });
  Fiber ends =
      reactor_->spawn("end", [&] { controller_.programs().end_repetitions(session_, INT64_MAX); });
  reactor_->run_ready();
  EXPECT_FALSE(waits.done());
  EXPECT_FALSE(ends.done());
  controller_.session_closed(session_);
  reactor_->run_ready();
  waits.join();
  ends.join();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(why->message(), HasSubstr("the program has gone"));
}

TEST_F(RepeatsTest, ARepetitionThatWasReplacedBeforeItsFiberRanDoesNotOutliveItsProgram) {
  const PlanId plan = compile(session_, 2);
  controller_.repeat(session_, request(plan, 10));
  controller_.programs().open(session_).cancel_repetition(
      plan);                                        // No step is under way, so it has ended.
  controller_.repeat(session_, request(plan, 10));  // No fiber has run yet.
  controller_.session_closed(session_);
  pass();
  EXPECT_EQ(controller_.counts().total(), 0u);
  EXPECT_EQ(prepared(), 0u);
}

TEST_F(RepeatsTest, APlanOfAnotherClientIsRefusedAsUnknown) {
  const PlanId plan = compile(session_, 2);
  FakeClient other;
  const SessionId eve = controller_.programs().add("evil", "eve", other);
  RepeatRequest asked = request(plan, 1);
  const std::string foreign = refused(eve, asked);
  EXPECT_EQ(foreign, cat("plan ", plan, ": not a plan of this client"));
  EXPECT_THROW(controller_.programs().open(eve).cancel_repetition(plan), Error);
  EXPECT_THROW(controller_.programs().open(eve).repetition(plan), Error);
  // Names of another client's runs and arrays.
  asked.first = RunId((eve.value << 40) + 1);
  EXPECT_THAT(refused(session_, asked), HasSubstr("not in the range of client"));
  pass();
  EXPECT_EQ(prepared(), 0u);
}

TEST_F(RepeatsTest, RepetitionsBeyondTheBoundsAreRefused) {
  const PlanId plan = compile(session_, 2);
  const auto refuse = [&](const auto& change) {
    RepeatRequest asked = request(plan, 1);
    change(asked);
    return refused(session_, asked);
  };
  EXPECT_THAT(refuse([](auto& asked) { asked.steps = kRepeatStepsMax + 1; }), HasSubstr("steps"));
  EXPECT_THAT(refuse([](auto& asked) { asked.steps = 0; }), HasSubstr("steps"));
  EXPECT_THAT(refuse([](auto& asked) { asked.inputs.clear(); }), HasSubstr("is missing"));
  EXPECT_THAT(refuse([](auto& asked) { asked.inputs[0].input = 1; }), HasSubstr("does not exist"));
  EXPECT_THAT(refuse([](auto& asked) { asked.inputs[0].value = std::vector<std::byte>(5); }),
              HasSubstr("got 5 bytes"));
  EXPECT_THAT(refuse([](auto& asked) { asked.inputs[0].value = std::vector<std::byte>(); }),
              HasSubstr("got 0 bytes"));
  EXPECT_THAT(refuse([](auto& asked) { asked.earlier = {squares(0)}; }),
              HasSubstr("is given twice"));
  EXPECT_THAT(refuse([](auto& asked) {
                asked.steps = kRepeatStepsMax;
                asked.first = RunId(asked.first.value | ((uint64_t{1} << 40) - 2));
              }),
              HasSubstr("range"));
  pass();
  EXPECT_EQ(prepared(), 0u);
}

Program with_state() {
  ProgramBuilder b("with_state", Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32()));
  b.update(w, w + 1.0);
  b.output("w", w);
  return b.build();
}

TEST_F(RepeatsTest, StepsGoOnWhenAHostIsLostHoweverMuchTheClientSendsMeanwhile) {
  FakeExecutor spare;
  Controller controller(*reactor_, {.checkpoint_folder = "/nowhere"});
  std::vector<FakeExecutor*> executors = {&executor_[0], &executor_[1], &spare};
  std::vector<HostId> hosts;
  for (FakeExecutor* executor : executors)
    hosts.push_back(controller.add_host({.name = "host", .devices = 2}, *executor));
  const SessionId session = controller.programs().add("trainer", "ada", client_);
  const PlanId plan = reactor_->run([&] {
    const SliceId slice = controller.allocate(session, {4}).id;
    const PlanId created = controller.compile(session, with_state(), {slice}, {2}).id;
    controller.keep_checkpoints(session, slice, {.every = 1'000'000});
    RepeatRequest asked{.number = 9, .plan = created, .steps = 4};
    asked.first = RunId((session.value << 40) + 100'000);
    controller.repeat(session, asked);
    return created;
  });
  std::set<std::pair<size_t, RunId>> answered;
  const auto finish = [&](size_t host, RunId run) {
    if (answered.emplace(host, run).second)
      controller.on_message(hosts[host], RunDoneFrame{.run = run});
  };
  pass();
  const RunId first = executor_[0].all<PrepareFrame>().at(0).run.run;
  finish(0, first);
  controller.host_lost(hosts[0], Error(ErrorKind::kUnavailable, "its connection ended"));
  controller.on_message(session, FreeFrame{std::vector<ArrayId>(Recovery::kDeferredMax - 1)});
  finish(1, first);  // Its end is reported, and the next step enqueued.
  for (int i = 0; i < 20; ++i) {
    pass();
    for (const size_t host : {1, 2}) {
      for (const PrepareFrame& frame : executors[host]->all<PrepareFrame>())
        finish(host, frame.run.run);
    }
  }
  const RepeatProgress progress = controller.programs().open(session).repetition(plan);
  EXPECT_TRUE(progress.ended);
  EXPECT_FALSE(progress.error) << progress.error->what();
  EXPECT_EQ(progress.done, 4);
  controller.session_closed(session);
  reactor_->run_ready();
}

}  // namespace
}  // namespace gangway
