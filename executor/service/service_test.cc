// Frames that an executor does not expect from a controller: every kind of frame in every stage
// that a plan and a run go through here. Each ends the connection, or is ignored: it never ends the
// process, keeps memory, or changes what other runs compute.
#include "executor/service/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/executor_scene.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// The outcome: 'E' the connection ended; 'f' run 1 failed; 'c' a put or get failed; '.' nothing
// did; '!' something forbidden happened. `detail` says why.
char outcome(Stage stage, const std::vector<Message>& messages, std::string& detail) {
  const auto reactor = Reactor::make_simulated();
  return reactor->run([&] {
    ExecutorScene scene(*reactor);
    scene.bring_to(stage);
    const size_t copies = scene.copies().size();
    for (const Message& message : messages) scene.send(message);
    scene.pass_ms(stage == Stage::kBroken ? 500 : 5);
    if (scene.has_ended()) {
      detail = scene.why_ended().message();
      return 'E';
    }
    char letter = '.';
    const std::vector<HostTransferDoneFrame> all_copies = scene.copies();
    for (size_t i = copies; i < all_copies.size(); ++i) {
      const auto& error = all_copies[i].error;
      detail = error ? error->what() : "a copy that nobody can have made";
      if (!error) return '!';
      letter = 'c';
    }
    const bool has_run = stage >= Stage::kPrepared;
    if (has_run) scene.finish(stage);
    const RunDoneFrame* done = scene.end_of(kRun);
    if (has_run != (done != nullptr)) return detail = "run 1 has not ended, or was made up", '!';
    if (has_run && done->error && stage != Stage::kCancelled) {
      detail = done->error->what();
      letter = 'f';
    } else if (has_run && stage != Stage::kCancelled && scene.loss(kRun) != 8) {
      return detail = cat("run 1: its loss is ", scene.loss(kRun)), '!';
    } else if (stage == Stage::kCancelled && !done->error) {
      return detail = "a cancelled run has committed", '!';
    }
    if (const float loss = scene.loss_of_another_plan(); loss != 8)
      return detail = cat("another plan's loss is ", loss), '!';
    if (scene.ends() != (has_run ? 2 : 1)) return detail = "a run has ended twice", '!';
    if (const int64_t left = scene.bytes_left(); left > 0)
      return detail = cat(left, " bytes are left"), '!';
    return letter;
  });
}

struct Row {
  // One letter for each stage; ' ': the frame is expected there, so it is not tried.
  std::string expected;
  std::string name;
  std::vector<Message> messages;
  std::string why;  // A regular expression: why the connection ends.
};

void expect_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    ASSERT_EQ(row.expected.size(), kStages) << row.name;
    std::string got, details;
    for (size_t s = 0; s < kStages; ++s) {
      std::string detail;
      got += row.expected[s] == ' ' ? ' ' : outcome(static_cast<Stage>(s), row.messages, detail);
      if (got[s] == 'E' && !std::regex_search(detail, std::regex(row.why))) got[s] = '!';
      if (got[s] != row.expected[s]) details += cat("\n  ", kStageLetters[s], ": ", detail);
    }
    EXPECT_EQ(got, row.expected) << row.name << details;
  }
}

const Error kMadeUp(ErrorKind::kInvalid, "made up");

PrepareFrame prepare(uint64_t ordinal, uint64_t run, PlanId plan = kPlan) {
  return {ordinal, step_request(plan, run)};
}

HostTransferFrame copy_of_state(uint64_t scope, uint64_t ticket) {
  return {.request = 77,
          .kind = HostTransferKind::kReadState,
          .scope = {scope},
          .name = "w",
          .ticket = Ticket(ticket)};
}

TEST(ExecutorFramesTest, FramesThatAreNotAControllersToSendEndItsConnection) {
  expect_all({
      // nilrpgxecub
      {"EEEEEEEEEEE", "run", {RunFrame{.plan = kPlan, .run = kRun}}, "not its to send"},
      {"EEEEEEEEEEE", "copy done", {HostTransferDoneFrame{77, kMadeUp}}, "not its to send"},
      {"EEEEEEEEEEE", "run done", {RunDoneFrame{.run = kRun, .error = kMadeUp}}, "not its to send"},
      {"EEEEEEEEEEE", "progress", {ProgressFrame{{{kRun, 0, 1, 9}}}}, "not its to send"},
      {"EEEEEEEEEEE", "heartbeat", {HeartbeatFrame{.runs_done = 7}}, "not its to send"},
  });
}

TEST(ExecutorFramesTest, FramesThatNameWhatNobodyKnowsMeanNothingButForARun) {
  const Error unavailable(ErrorKind::kUnavailable, "made up");
  expect_all({
      // nilrpgxecub
      {"...........", "uninstall", {UninstallFrame{kUnknownPlan}}},
      {"...........", "refused", {UninstallFrame{kUnknownPlan, true}}},
      {"EEEEEEEEEEE", "prepare", {prepare(0, 77, kUnknownPlan)}, "plan 77: is not installed"},
      {"...........", "grant", {grant(kUnknownRun, 3, 9, 1000, 5)}},
      {"...........", "cancel", {CancelFrame{kUnknownRun, kMadeUp}}},
      {"...........", "cancel, as of a lost peer", {CancelFrame{kUnknownRun, unavailable}}},
      {"...........", "free", {FreeFrame{{ArrayId(77), ArrayId(78)}}}},
      {"...........", "free of nothing", {FreeFrame{}}},
      {"...........", "free scope", {FreeScopeFrame{{77}}}},
      {"ccccccccccc", "get", {HostTransferFrame{.request = 77, .array = ArrayId(77)}}},
      {"ccccccccccc",
       "put",
       {HostTransferFrame{.request = 77, .kind = HostTransferKind::kPut, .plan = kUnknownPlan}}},
      {"ccccccccccc", "get state", {copy_of_state(77, 1000)}},
  });
}

TEST(ExecutorFramesTest, APrepareThatIsNotThePlansNextEndsTheConnection) {
  expect_all({
      // nilrpgxecub
      {"EEEEEEEEEEE",
       "one ordinal is skipped",
       {prepare(2, 2)},
       "is not installed|is not ready|expected run number"},
      {"EEE EEEEEEE",
       "an ordinal comes again",
       {prepare(0, 2)},
       "is not installed|is not ready|expected run number"},
      {"EEEEEEE EEE",
       "a run comes again",
       {prepare(1, 1)},
       "is not installed|is not ready|expected run number|was prepared already"},
      {"EEE EEE EEE",
       "one more than may be in flight",
       {prepare(1, 2), prepare(2, 3)},
       "is not installed|is not ready|at most 2 runs in flight"},
  });
}

TEST(ExecutorFramesTest, GrantsThatBreakTheOrderEndTheConnection) {
  const auto all = [](uint64_t ticket) { return grant(kRun, 0, kPositions, ticket, kEverySlice); };
  expect_all({
      // nilrpgxecub
      {"EEEEEEEEEEE", "of no positions", {grant(kRun, 0, 0, 1000)}, "a grant of no positions"},
      {"...........", "of nothing", {GrantFrame{}}},
      {"EEEEEEEEEEE",
       "a ticket comes again",
       {grant(kRun, 0, 1, 1000), grant(kRun, 1, 1, 1000)},
       "expected a ticket above 1000, got 1000|expected positions|expected ranges"},
      {"EEEEEEEEEEE",
       "of unknown runs too",
       {grant(RunId(7), 0, 1, 9), grant(RunId(7), 0, 1, 9)},
       "expected a ticket above"},
      {"EEEEEEEEEEE",
       "of unknown runs, of two",
       {grant(RunId(7), 0, 1, 1000), grant(RunId(8), 0, 1, 1000, 1)},
       "expected a ticket above 1000"},
      {"...........",
       "the gate, in all slices, of a run that has ended",
       {grant(RunId(7), 3, 1, 1000), grant(RunId(7), 5, 1, 1000, 1)}},
      {"EEEEEEEEEEE",
       "a lower ticket",
       {grant(kUnknownRun, 0, 2, 999), grant(kRun, 0, 1, 1000)},
       "expected a ticket above 1000"},
      {"EEEEEEEEEEE",
       "beyond all tickets",
       {grant(kRun, 0, 1, ~uint64_t{0})},
       "beyond all that there are"},
      {"EEEEEEEEEEE",
       "beyond all positions",
       {grant(kRun, ~0u - 1, 2, 1000)},
       "beyond all that there are"},
      {"....EEE.E.E",
       "a position is skipped",
       {grant(kRun, 2, 1, 1000)},
       "expected positions from"},
      {"....EEE.E.E",
       "the gate with what is before it",
       {grant(kRun, 0, 2, 1000)},
       "the gate in a range of its own|expected positions"},
      {".... EE. . ",
       "a position comes again",
       {grant(kRun, 0, 1, 1000)},
       "expected positions from|expected ranges"},
      {"....EEE.E.E",
       "more positions than there are",
       {grant(kRun, 0, 4, 1000)},
       "expected positions from"},
      {"....EEE.E.E",
       "a slice that does not exist",
       {grant(kRun, 0, 1, 1000, 1)},
       "slice 1 does not exist"},
      {".....EE....",
       "all slices at once, behind one",
       {all(1000)},
       "expected ranges of single slices|expected positions"},
  });
}

// Frames that a controller may send, but not in these stages.
TEST(ExecutorFramesTest, FramesThatComeTooEarlyOrTooLateEndTheRunOrMeanNothing) {
  const Error enough(ErrorKind::kCancelled, "enough"),
      lost(ErrorKind::kUnavailable, "a peer is lost");
  expect_all({
      // nilrpgxecub
      {"....fff...f", "cancel", {CancelFrame{kRun, enough}}},
      {"....fff...f", "cancel, as of a lost peer", {CancelFrame{kRun, lost}}},
      {"....fff...f", "twice", {CancelFrame{kRun, enough}, CancelFrame{kRun, enough}}},
      {"....fff...f", "uninstall", {UninstallFrame{kPlan}, UninstallFrame{kPlan}}},
      {"....fff...f", "refused", {UninstallFrame{kPlan, true}}},
      {"...........",
       "free of an argument and a result",
       {FreeFrame{{ArrayId(100), ArrayId(1001)}}}},
      {"...........", "free scope", {FreeScopeFrame{{1}}}},
  });
}

TEST(ExecutorFramesTest, CopiesOfWhatIsNotThereFailAndThoseThatBreakTheOrderEndTheConnection) {
  expect_all({
      // nilrpgxecub
      {"EEEEEEEEEEE", "without a ticket", {copy_of_state(1, 0)}, "expected a ticket above"},
      {"EEEEEEEEEEE",
       "a ticket comes again",
       {copy_of_state(1, 1000), copy_of_state(1, 1000)},
       "expected a ticket above 1000"},
      {"ccccccccccc", "of no bytes", {copy_of_state(1, 1000)}},
      {"ccccccccccc", "of another size", {HostTransferFrame{.request = 77, .array = ArrayId(100)}}},
      {"ccccccccccc",
       "to an input that does not exist",
       {HostTransferFrame{
           .request = 77, .kind = HostTransferKind::kPut, .plan = kPlan, .input = 9}}},
      {"ccccccccccc",
       "from a segment that does not exist",
       {HostTransferFrame{.request = 77,
                          .kind = HostTransferKind::kPut,
                          .at = {.segment = {.pid = 1, .fd = 99, .bytes = 4096}, .bytes = 64},
                          .array = ArrayId(77),
                          .plan = kPlan}}},
      {"EEEEEEEEEEE",
       "beyond its segment",
       {HostTransferFrame{.request = 77,
                          .at = {.segment = {.bytes = 64}, .offset = 1, .bytes = 64},
                          .array = ArrayId(100)}},
       "lie outside its segment"},
  });
}

// Changes the request of a run; `why`: its error then, a regular expression.
struct WrongRun {
  std::string why;
  std::function<void(RunFrame&)> change;
};

// The run's peers wait for its part in the plan's collectives, so it takes part, but has no effect.
TEST(ExecutorFramesTest, ARunThatDoesNotFitItsPlanFailsAndLeavesStateAsItWas) {
  const std::vector<WrongRun> all = {
      {"array 78 is not here", [](RunFrame& run) { run.arguments[0].array = ArrayId(78); }},
      {"array 0 is not here", [](RunFrame& run) { run.arguments[1].bytes.clear(); }},
      {"expected f32\\[\\], got 2 bytes", [](RunFrame& run) { run.arguments[1].bytes.resize(2); }},
      {"expected f32\\[\\], got 64 bytes",
       [](RunFrame& run) { run.arguments[1].bytes.resize(64); }},
      {"expected f32\\[8, 2\\], got 4 bytes",
       [](RunFrame& run) { run.arguments[0] = {.input = 0, .bytes = run.arguments[1].bytes}; }},
      {"expected f32\\[\\] placed .*, got f32\\[8, 2\\]",
       [](RunFrame& run) { run.arguments[1] = {.input = 1, .array = ArrayId(100)}; }},
      {"has no input 9", [](RunFrame& run) { run.arguments[0].input = 9; }},
      {"no argument was given", [](RunFrame& run) { run.arguments.pop_back(); }},
      {"is given twice", [](RunFrame& run) { run.arguments.push_back(run.arguments[0]); }},
      {"expected 1 outputs", [](RunFrame& run) { run.outputs.clear(); }},
      {"expected 1 outputs", [](RunFrame& run) { run.outputs.emplace_back(1002); }},
      {"got 1 and 1", [](RunFrame& run) { run.source_positions = {7}; }},
      {"the run before it did not commit", [](RunFrame& run) { run.after = RunId(77); }},
      {"the run before it did not commit", [](RunFrame& run) { run.after = kRun; }},
  };
  for (const WrongRun& wrong : all) {
    const auto reactor = Reactor::make_simulated();
    reactor->run([&] {
      ExecutorScene scene(*reactor);
      scene.bring_to(Stage::kReady);
      PrepareFrame bad = prepare(0, 1);
      wrong.change(bad.run);
      scene.send(bad);
      scene.send(prepare(1, 2));
      for (const uint64_t run : {1, 2}) {
        scene.send(grant(RunId(run), 0, kPositions, 10 * run, kEverySlice));
        scene.wait_for_end(RunId(run));
      }
      const RunDoneFrame* done = scene.end_of(kRun);
      ASSERT_TRUE(done != nullptr && done->error) << wrong.why;
      EXPECT_THAT(done->error->what(), testing::ContainsRegex(wrong.why));
      EXPECT_EQ(scene.loss(RunId(2)), 8) << wrong.why;
      EXPECT_EQ(scene.loss_of_another_plan(), 8) << wrong.why;
      EXPECT_EQ(scene.bytes_left(), 0) << wrong.why;
    });
  }
}

// The array would be read and written with another's type.
TEST(ExecutorFramesTest, ARunWhoseOutputHasTheNameOfAnotherOfItsArraysEndsTheConnection) {
  const auto naming = [](std::vector<ArrayId> outputs) {
    PrepareFrame frame = prepare(0, 1);
    frame.run.outputs = std::move(outputs);
    return frame;
  };
  expect_all({
      // nilrpgxecub
      {"   E       ", "an argument", {naming({ArrayId(100)})}, "array 100: .* is taken"},
      {"   E       ", "an output", {naming({ArrayId(7), ArrayId(7)})}, "array 7: .* is taken"},
  });
}

TEST(ExecutorFramesTest, StepsOfAnInstallationOutOfOrderAreErrorsAndHarmNothing) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    ExecutorScene scene(*reactor);
    const auto refused = [](const std::function<void()>& step) { return error_of(step).message(); };
    EXPECT_THAT(refused([&] { scene.link(kPlan, {}); }), HasSubstr("plan 1: is not installed"));
    EXPECT_THAT(refused([&] { scene.commit_install(kPlan); }), HasSubstr("is not installed"));
    const std::vector<LinkOffer> offers = scene.install(kPlan);
    EXPECT_THAT(refused([&] { scene.install(kPlan); }), HasSubstr("is installed already"));
    EXPECT_THAT(refused([&] { scene.commit_install(kPlan); }), HasSubstr("must be linked first"));
    scene.link(kPlan, offers);
    EXPECT_THAT(refused([&] { scene.link(kPlan, offers); }), HasSubstr("linked already"));
    scene.make_ready(kPlan);
    EXPECT_THAT(refused([&] { scene.link(kPlan, offers); }), HasSubstr("linked already"));
    EXPECT_THAT(refused([&] { scene.commit_install(kPlan); }), HasSubstr("must be linked first"));
    EXPECT_FALSE(scene.has_ended());
    scene.send(prepare(0, 1));
    scene.send(grant(kRun, 0, kPositions, 10, kEverySlice));
    scene.wait_for_end(kRun);
    EXPECT_EQ(scene.loss(kRun), 8);
    EXPECT_EQ(scene.bytes_left(), 0);
  });
}

TEST(ExecutorTimelineTest, TheLastEventsOfEachDeviceAreKeptAndGiven) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    ExecutorScene scene(*reactor, 64);
    EXPECT_TRUE(scene.timeline(10).trace.threads[0].events.empty());
    scene.bring_to(Stage::kEnded);
    const HostTimeline all = scene.timeline(1000);
    ASSERT_EQ(all.trace.threads.size(), 2 * kDevices) << "also those of collectives";
    const std::vector<TraceEvent>& events = all.trace.threads[0].events;
    const auto begins = std::ranges::find(events, TraceMark::kRunBegins, &TraceEvent::mark);
    ASSERT_NE(begins, events.end());
    EXPECT_EQ(begins->run, kRun.value);
    EXPECT_EQ(begins->node, kPlan.value);
    const auto runs = std::ranges::count(events, std::string_view("run"), &TraceEvent::name);
    EXPECT_EQ(runs, kPositions);
    const HostTimeline last = scene.timeline(1);
    ASSERT_EQ(last.trace.threads[0].events.size(), 1u);
    EXPECT_EQ(last.trace.threads[0].lost, events.size() - 1);
    EXPECT_EQ(scene.timeline(1000).trace.threads[0].events.size(), events.size()) << "they stay";
  });
}

TEST(ExecutorTimelineTest, AnExecutorThatKeepsNoTimelineSaysSo) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    ExecutorScene scene(*reactor);
    EXPECT_THAT(error_text_of([&] { scene.timeline(10); }), HasSubstr("this executor keeps none"));
  });
}

}  // namespace
}  // namespace gangway
