// Histories by hand: some that a program can have, and some that no program can have.
#include "tests/sim/history/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway::history {
namespace {

using ::testing::HasSubstr;

// The history of a program whose runs have inputs 1, 2, 3 ...
class Told {
 public:
  Values after(int64_t runs) const {
    int64_t trace = 0;
    for (int64_t x = 1; x <= runs; ++x) trace = (trace * 31 + x) % kModulus;
    return {{"count", runs}, {"trace", trace}};
  }
  size_t begin(OpKind kind, int64_t x = 0) {
    return history.begin({.kind = kind, .program = "trainer", .executable = kStep, .x = x});
  }
  void run(int64_t x, const Values& seen) { history.told(begin(OpKind::kRun, x), seen); }
  void runs(int64_t first, int64_t last) {
    for (int64_t x = first; x <= last; ++x) run(x, after(x));
  }
  void read(const Values& seen) { history.told(begin(OpKind::kRead), seen); }
  void snapshot(int64_t version, const Values& seen) {
    history.told(
        history.begin({.kind = OpKind::kSnapshot, .program = "trainer", .version = version}), seen);
  }
  size_t repeat(int64_t first, int64_t steps) {
    return history.begin({.kind = OpKind::kRepeat,
                          .program = "trainer",
                          .executable = kStep,
                          .x = first,
                          .steps = steps});
  }
  void status(int64_t done, const Values& seen) {
    history.told(begin(OpKind::kStatus), seen, done);
  }
  // Explains the misfit; empty if the history fits.
  std::string refusal() const {
    const auto misfit = find_misfit(history);
    return misfit ? explain(history, *misfit) : "";
  }

  History history;
};

TEST(HistoryModelTest, AProgramThatRunsStepAfterStepFits) {
  Told told;
  told.runs(1, 3);
  told.read(told.after(3));
  told.snapshot(2, told.after(2));
  told.snapshot(-1, told.after(3));
  const size_t repetition = told.repeat(4, 10);
  told.status(0, {});
  told.status(4, told.after(7));
  told.status(4, told.after(7));
  told.history.told(repetition, told.after(13), 10);
  told.read(told.after(13));
  EXPECT_EQ(told.refusal(), "");
}

TEST(HistoryModelTest, ALostStepIsRefused) {
  Told told;
  told.runs(1, 5);
  // The fifth run has a result, but the next one's result follows the fourth.
  Values next = told.after(4);
  next["count"] += 1;
  next["trace"] = (next["trace"] * 31 + 6) % kModulus;
  told.run(6, next);
  EXPECT_THAT(told.refusal(), HasSubstr("run step with x = 6: count = 5"));
  EXPECT_THAT(told.refusal(), HasSubstr("#5 does not fit: expected count = 6, trace = "));

  Told read;
  read.runs(1, 5);
  read.read(read.after(4));
  EXPECT_THAT(read.refusal(), HasSubstr("#5 does not fit: expected count = 5"));
}

TEST(HistoryModelTest, ARepeatedStepIsRefused) {
  Told told;
  told.runs(1, 4);
  Values twice = told.after(4);
  twice["count"] += 1;
  twice["trace"] = (twice["trace"] * 31 + 4) % kModulus;
  told.read(twice);
  EXPECT_THAT(told.refusal(), HasSubstr("#4 does not fit: expected count = 4"));
}

TEST(HistoryModelTest, StepsInAnotherOrderAreRefused) {
  Told told;
  told.runs(1, 2);
  told.run(4, {{"count", 3}, {"trace", (told.after(2).at("trace") * 31 + 3) % kModulus}});
  EXPECT_THAT(told.refusal(), HasSubstr("#2 does not fit"));
}

TEST(HistoryModelTest, ARunThatWasReportedAsNotDoneMayNotHaveBeenDone) {
  Told told;
  told.runs(1, 2);
  told.history.not_done(told.begin(OpKind::kRun, 7), "it was cancelled");
  told.run(3, told.after(3));
  EXPECT_EQ(told.refusal(), "");
  Values with_it = told.after(3);
  with_it["count"] += 1;
  told.read(with_it);
  EXPECT_THAT(told.refusal(), HasSubstr("#4 does not fit"));
}

TEST(HistoryModelTest, ARunWithoutAReportMayBeDoneOrNotAndALaterReadDecides) {
  Told told;
  told.runs(1, 2);
  told.history.unknown(told.begin(OpKind::kRun, 3), "its client has detached");
  told.read(told.after(3));
  EXPECT_EQ(told.refusal(), "");
  told.read(told.after(2));
  EXPECT_THAT(told.refusal(), HasSubstr("#4 does not fit: expected count = 3"));
}

TEST(HistoryModelTest, AStaleReadIsRefused) {
  Told told;
  told.runs(1, 5);
  told.snapshot(-1, told.after(4));
  EXPECT_THAT(told.refusal(), HasSubstr("#5 does not fit: that is older than what was told in #4 "
                                        "before it was asked for"));
  // The rule holds under one controller: the next one may begin at an older checkpoint.
  Told restarted;
  const size_t repetition = restarted.repeat(1, 10);
  restarted.status(8, restarted.after(8));
  restarted.history.controller_ended();
  restarted.status(6, restarted.after(6));
  restarted.snapshot(-1, restarted.after(6));
  restarted.history.told(repetition, restarted.after(10), 10);
  EXPECT_EQ(restarted.refusal(), "");
  restarted.read(restarted.after(10));
  restarted.snapshot(-1, restarted.after(9));
  EXPECT_THAT(restarted.refusal(), HasSubstr("that is older than what was told in #4"));
}

TEST(HistoryModelTest, AControllerThatGoesBackBehindAReportedCheckpointIsRefused) {
  Told told;
  const size_t repetition = told.repeat(1, 20);
  told.history.told(told.begin(OpKind::kCheckpoint), {{"count", 10}});
  told.history.controller_ended();
  told.status(12, told.after(12));
  told.history.controller_ended();
  told.status(10, told.after(10));
  told.history.told(repetition, told.after(20), 20);
  EXPECT_EQ(told.refusal(), "");
  told.history.controller_ended();
  told.status(8, told.after(8));
  EXPECT_THAT(told.refusal(), HasSubstr("#4 does not fit: that is older than what was told in #1"));

  Told last;
  const size_t whole = last.repeat(1, 20);
  last.history.told(last.begin(OpKind::kCheckpoint), {{"count", 20}});
  last.history.controller_ended();
  last.status(16, last.after(16));
  last.history.told(whole, last.after(20), 20);
  EXPECT_EQ(last.refusal(), "") << "that of the last step, which is taken again for its outputs";
}

TEST(HistoryModelTest, AProgressThatFallsBackIsRefused) {
  Told told;
  told.repeat(1, 10);
  told.status(8, told.after(8));
  told.status(7, told.after(7));
  EXPECT_THAT(told.refusal(), HasSubstr("#2 does not fit: that is older than what was told in #1"));
}

TEST(HistoryModelTest, AMixedSnapshotIsRefused) {
  Told told;
  told.runs(1, 5);
  Values mixed = told.after(5);
  mixed["trace"] = told.after(4).at("trace");
  told.snapshot(5, mixed);
  EXPECT_THAT(told.refusal(), HasSubstr("read version 5: count = 5"));
  EXPECT_THAT(told.refusal(), HasSubstr("#5 does not fit: expected count = 5"));
}

TEST(HistoryModelTest, ASnapshotOfAVersionThatNeverCameIsRefused) {
  Told told;
  told.runs(1, 2);
  told.snapshot(-1, told.after(3));
  EXPECT_THAT(told.refusal(), HasSubstr("there is no such version; the newest is 2"));
}

TEST(HistoryModelTest, AStateOfItsOwnBeginsAnewOnceItWasReleased) {
  Told told;
  const auto other = [&](OpKind kind, int64_t x, Values seen) {
    told.history.told(
        told.history.begin({.kind = kind, .program = "trainer", .executable = "extra", .x = x}),
        std::move(seen));
  };
  other(OpKind::kCompile, 0, {});
  other(OpKind::kRun, 1, {{"count", 1}, {"trace", 1}, {"extra.own", 1}});
  other(OpKind::kRun, 2, {{"count", 2}, {"trace", 33}, {"extra.own", 5}});
  other(OpKind::kRelease, 0, {});
  other(OpKind::kCompile, 0, {});
  EXPECT_EQ(told.refusal(), "");
  told.read({{"count", 2}, {"trace", 33}, {"extra.own", 5}});
  EXPECT_THAT(told.refusal(), HasSubstr("expected count = 2, extra.own = 0, trace = 33"));
}

}  // namespace
}  // namespace gangway::history
