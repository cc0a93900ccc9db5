#include "executor/devices/device_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/bare_device.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HeldStream final : public BareStream {
 public:
  bool collectives_block() const override { return true; }
};

// The piece of a work at one ticket.
struct Piece {
  uint64_t ticket = 0;
  bool waits = false;
  bool collective = false;
  Blocks blocks = Blocks::kNothing;  // While it waits.
};

// A run of pieces that logs what it has done.
class Pieces final : public Work {
 public:
  Pieces(std::string name, std::vector<Piece> work, std::vector<std::string>& log)
      : pieces(std::move(work)), name_(std::move(name)), log_(log) {}

  Progress advance(Turn& turn) override {
    while (next < pieces.size() && next < granted) {
      if (pieces[next].waits) return Progress::kPending;
      log_.push_back(name_ + std::to_string(pieces[next].ticket));
      was_alone.push_back(turn.alone);
      if (++next < pieces.size() && next < granted && turn.over_before(pieces[next].ticket))
        return Progress::kMore;
    }
    return next == pieces.size() ? Progress::kDone : Progress::kPending;
  }
  void retire(bool done) override { log_.push_back(name_ + (done ? " done" : " dropped")); }
  uint64_t ticket() const override { return next < granted ? pieces[next].ticket : kNoTicket; }
  bool meets_others() const override { return next < granted && pieces[next].collective; }
  Blocks blocks() const override { return pieces[next].blocks; }
  int64_t modelled_ns() const override { return takes_ns; }
  bool needs_others() const override { return takes_ns == kNever; }
  std::span<const void* const> states() const override { return shared; }
  const void* region() const override { return lies_in; }

  std::vector<Piece> pieces;
  size_t next = 0;
  size_t granted = 100;
  int64_t takes_ns = kNever;
  std::vector<const void*> shared;
  const void* lies_in = nullptr;
  std::vector<bool> was_alone;  // At each piece.

 private:
  std::string name_;
  std::vector<std::string>& log_;
};

class DeviceScheduleTest : public testing::Test {
 protected:
  Progress advance() {
    Turn turn{stream};
    return schedule.advance(turn);
  }
  std::vector<std::string> log;
  HeldStream stream;
  RankStream a, b, c;
  DeviceSchedule schedule;
};

TEST_F(DeviceScheduleTest, TheLowestTicketGoesFirstPieceByPiece) {
  Pieces x("x", {{3}, {4}, {7}}, log), y("y", {{1}, {5}, {8}}, log);
  schedule.push(x, &a);
  schedule.push(y, &b);
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("y1", "x3", "x4", "y5", "x7", "x done", "y8", "y done"));
}

TEST_F(DeviceScheduleTest, AWorkIsAloneWhileNoOtherStreamAndNoTaskIsThere) {
  Pieces x("x", {{1}, {2}, {6}, {7}}, log), y("y", {{4}, {5}}, log), task("task", {{8}}, log);
  x.granted = 2;
  schedule.push(x, &a);
  EXPECT_EQ(advance(), Progress::kPending);
  schedule.push(y, &b);
  y.granted = 0;
  x.granted = 3;
  EXPECT_EQ(advance(), Progress::kPending);  // y has no ticket yet, which does not matter.
  y.granted = 2;
  x.granted = 4;
  schedule.push(task);
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(x.was_alone, ElementsAre(true, true, false, false));
  EXPECT_THAT(y.was_alone, ElementsAre(false, false));
  EXPECT_THAT(task.was_alone, ElementsAre(true));
}

TEST_F(DeviceScheduleTest, RunsOfAStreamFollowOneAnother) {
  Pieces first("first", {{1, true}}, log), second("second", {{2}}, log);
  schedule.push(first, &a);
  schedule.push(second, &a);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, IsEmpty());
  first.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("first1", "first done", "second2", "second done"));
}

TEST_F(DeviceScheduleTest, AStreamThatWaitsIsPassedOverAndTriedAgainAfterEachPiece) {
  Pieces low("low", {{1, true}, {2}}, log), high("high", {{5}, {6}}, log);
  schedule.push(low, &a);
  schedule.push(high, &b);
  high.granted = 1;
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("high5"));
  low.pieces[0].waits = false;
  high.granted = 2;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("high5", "low1", "low2", "low done", "high6", "high done"));
}

TEST_F(DeviceScheduleTest, AStreamWithoutATicketWaitsForOne) {
  Pieces x("x", {{4}}, log);
  x.granted = 0;
  schedule.push(x, &a);
  EXPECT_EQ(advance(), Progress::kPending);
  x.granted = 1;
  EXPECT_EQ(advance(), Progress::kDone);
}

TEST_F(DeviceScheduleTest, ATaskWaitsForNoOtherAndComesBeforeAllTickets) {
  Pieces run("run", {{1}}, log), waits("waits", {{0, true}}, log), copy("copy", {{0}}, log);
  schedule.push(run, &a);
  schedule.push(waits);
  schedule.push(copy);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("copy0", "copy done", "run1", "run done"));
  schedule.drop();  // While the works live.
}

TEST_F(DeviceScheduleTest, WorksThatShareAStateRunInTicketOrderEvenWhereTheLowerWaits) {
  const int there[2] = {};  // States go by address.
  const int &other = there[0], &state = there[1];
  Pieces step("step", {{1, true}}, log), read("read", {{2}}, log), eval("eval", {{3}}, log),
      beside("beside", {{4}}, log);
  step.shared = {&other, &state};
  read.shared = eval.shared = {&state};
  schedule.push(step, &a);
  schedule.push(read);
  schedule.push(eval, &b);
  schedule.push(beside, &c);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("beside4", "beside done"));
  step.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("beside4", "beside done", "step1", "step done", "read2", "read done",
                               "eval3", "eval done"));
}

TEST_F(DeviceScheduleTest, AnOverlaidWorkBeginsWhenTheOneInItsRegionHasEnded) {
  const int region = 0, other_region = 0;
  Pieces lower("lower", {{1}, {2, true}, {3}}, log), higher("higher", {{4}, {5}}, log),
      elsewhere("elsewhere", {{6}}, log);
  lower.lies_in = higher.lies_in = &region;
  elsewhere.lies_in = &other_region;
  schedule.push(higher, &b);
  schedule.push(lower, &a);
  schedule.push(elsewhere, &c);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("lower1", "elsewhere6", "elsewhere done"));
  lower.pieces[1].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("lower1", "elsewhere6", "elsewhere done", "lower2", "lower3",
                               "lower done", "higher4", "higher5", "higher done"));
}

TEST_F(DeviceScheduleTest, RanksOfOneRunLieBesideOneAnotherAndTakeTurns) {
  const int region = 0;
  Pieces x("x", {{1, true}, {2}}, log), y("y", {{1}, {2}}, log), z("z", {{3}}, log);
  x.lies_in = y.lies_in = z.lies_in = &region;
  schedule.push(x, &a);
  schedule.push(y, &b);
  schedule.push(z, &c);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("y1"));
  x.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("y1", "x1", "x2", "x done", "y2", "y done", "z3", "z done"));
}

TEST_F(DeviceScheduleTest, ACollectiveBeginsAfterAllWithLowerTickets) {
  Pieces low("low", {{1, true}, {3, false, true}}, log);
  Pieces high("high", {{2}, {4, false, true}, {5}}, log);
  schedule.push(low, &a);
  schedule.push(high, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("high2")) << "its collective comes after the one with ticket 3";
  low.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("high2", "low1", "low3", "low done", "high4", "high5", "high done"));
}

// The other members of the collective may wait for something that the lower ticket sends.
TEST_F(DeviceScheduleTest, ACollectiveDoesNotBeginWhileAnythingWithALowerTicketWaits) {
  Pieces low("low", {{1, true}}, log), high("high", {{3, false, true}}, log);
  schedule.push(low, &a);
  schedule.push(high, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, IsEmpty());
  schedule.drop();  // While the works live.
}

TEST_F(DeviceScheduleTest, AStreamThatHasDoneAllThatItWasGrantedHoldsUpNoCollective) {
  Pieces low("low", {{1}, {9}}, log), high("high", {{3, false, true}}, log);
  low.granted = 1;
  schedule.push(low, &a);
  schedule.push(high, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("low1", "high3", "high done"));
  schedule.drop();  // While the works live.
}

TEST_F(DeviceScheduleTest, ATaskThatWaitsHoldsUpNoCollective) {
  Pieces task("task", {{0, true}}, log), run("run", {{3, false, true}}, log);
  schedule.push(task);
  schedule.push(run, &a);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("run3", "run done"));
  schedule.drop();  // While the works live.
}

// A rank's stream that has no ticket when it is first asked, and gets one before the other stream
// does: this happens when the reactor grants both in between.
class GrantedMeanwhile final : public Work {
 public:
  GrantedMeanwhile(Pieces& mine, Pieces& other) : mine_(mine), other_(other) {}
  Progress advance(Turn& turn) override { return mine_.advance(turn); }
  void retire(bool done) override { mine_.retire(done); }
  uint64_t ticket() const override {
    if (!asked_) {
      asked_ = true;
      mine_.granted = other_.granted = 100;
      return kNoTicket;
    }
    return mine_.ticket();
  }
  bool meets_others() const override { return mine_.meets_others(); }

 private:
  Pieces& mine_;
  Pieces& other_;
  mutable bool asked_ = false;
};

TEST_F(DeviceScheduleTest, TicketsThatComeWhileTheScheduleLooksKeepTheirOrder) {
  Pieces low("low", {{1, false, true}}, log), high("high", {{2, false, true}}, log);
  low.granted = high.granted = 0;
  GrantedMeanwhile first(low, high);
  schedule.push(first, &a);
  schedule.push(high, &b);
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("low1", "low done", "high2", "high done"));
}

TEST_F(DeviceScheduleTest, WorksAreBriefOnlyIfTheirTimesTogetherAreBrief) {
  EXPECT_EQ(schedule.brief_ns(100), 0);
  Pieces x("x", {{1}}, log), y("y", {{2}}, log), z("z", {{3}}, log);
  x.takes_ns = 60;
  y.takes_ns = 40;
  schedule.push(x, &a);
  schedule.push(y, &b);
  EXPECT_EQ(schedule.brief_ns(100), 100);
  EXPECT_EQ(schedule.brief_ns(99), kNever);
  schedule.push(z, &b);
  EXPECT_EQ(schedule.brief_ns(1000), kNever) << "nothing is known of z";
  EXPECT_EQ(advance(), Progress::kDone);
  Pieces task("task", {{0}}, log);
  task.takes_ns = 1;
  schedule.push(task);
  EXPECT_EQ(schedule.brief_ns(1000), kNever);
  EXPECT_EQ(advance(), Progress::kDone);
  Pieces held("held", {{4, true, false, Blocks::kAll}}, log);
  held.takes_ns = 1;
  schedule.push(held, &a);
  EXPECT_EQ(schedule.brief_ns(1000), 1);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_EQ(schedule.brief_ns(1000), kNever) << "it blocks the device";
  schedule.drop();  // While the works live.
}

TEST_F(DeviceScheduleTest, AWorkThatBlocksTheDeviceKeepsEvenLowerTicketsWaiting) {
  Pieces low("low", {{1, true}}, log);
  Pieces high("high", {{2, true, false, Blocks::kAll}, {3}}, log);
  schedule.push(low, &a);
  schedule.push(high, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  low.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, IsEmpty());
  high.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("high2", "low1", "low done", "high3", "high done"));
}

TEST_F(DeviceScheduleTest, RanksWithTheSameTicketsTakeTurns) {
  Pieces x("x", {{1}, {2}}, log), y("y", {{1}, {2}}, log);
  schedule.push(x, &a);
  schedule.push(y, &b);
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("x1", "y1", "x2", "x done", "y2", "y done"));
}

TEST_F(DeviceScheduleTest, ARankBeginsACollectiveWhileAnotherOfTheSameTicketWaitsInIt) {
  Pieces first("first", {{5, true, true}}, log), second("second", {{5, false, true}}, log);
  schedule.push(first, &a);
  schedule.push(second, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("second5", "second done"));
  first.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
}

TEST_F(DeviceScheduleTest, WhereACollectiveBlocksTheDeviceOnlyOtherRanksOfItsTicketGoOn) {
  Pieces first("first", {{5, true, true, Blocks::kOthers}, {6}}, log);
  Pieces second("second", {{5, false, true}, {6}}, log), other("other", {{3}}, log),
      task("task", {{0}}, log);
  schedule.push(first, &a);
  EXPECT_EQ(advance(), Progress::kPending);
  schedule.push(other, &c);
  schedule.push(task);
  schedule.push(second, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, ElementsAre("second5"));
  first.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("second5", "first5", "task0", "task done", "other3", "other done",
                               "first6", "first done", "second6", "second done"));
}

TEST_F(DeviceScheduleTest, ARankThatTakesItsTimeKeepsTheOtherRanksWaiting) {
  Pieces first("first", {{5, true, false, Blocks::kAll}}, log), second("second", {{5}}, log);
  schedule.push(first, &a);
  schedule.push(second, &b);
  EXPECT_EQ(advance(), Progress::kPending);
  EXPECT_THAT(log, IsEmpty());
  first.pieces[0].waits = false;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_THAT(log, ElementsAre("first5", "first done", "second5", "second done"));
}

TEST_F(DeviceScheduleTest, DroppingTheScheduleDropsAllWorkThatIsLeft) {
  Pieces x("x", {{1, true}}, log), y("y", {{2}}, log), task("task", {{0, true}}, log);
  schedule.push(x, &a);
  schedule.push(y, &a);
  schedule.push(task);
  EXPECT_EQ(advance(), Progress::kPending);
  schedule.drop();
  EXPECT_THAT(log, ElementsAre("task dropped", "x dropped", "y dropped"));
}

}  // namespace
}  // namespace gangway
