#include "controller/scheduler/queue.h"

#include <gtest/gtest.h>

#include <string>

namespace gangway {
namespace {

const auto kAny = [](RunId) { return true; };

class RunQueueTest : public testing::Test {
 protected:
  void add(uint64_t run, uint64_t session, uint64_t positions = 1) {
    queue_.add({.run = RunId(run), .session = SessionId(session), .positions = positions});
  }
  // The runs that go now, in their order, and what is told between them: "1 told 2 ".
  std::string all() {
    while (const auto next = queue_.next(kAny)) {
      queue_.take(*next);
      order_ += std::to_string(next->value) + " ";
    }
    return order_;
  }
  std::function<void(Ticket)> tell() {
    return [this](Ticket ticket) {
      order_ += "told ";
      told_ = ticket;
    };
  }

  RunQueue queue_{std::make_unique<Fifo>()};
  std::string order_;
  Ticket told_;
};

TEST_F(RunQueueTest, ARunTakesATicketForEachOfItsPositions) {
  add(1, 1, 3);
  add(2, 1);
  EXPECT_EQ(queue_.take(RunId(1)), Ticket(1));
  EXPECT_EQ(queue_.take(RunId(2)), Ticket(4));
  EXPECT_EQ(queue_.next_ticket(), Ticket(5));
}

TEST_F(RunQueueTest, ARunWithoutRoomIsPassedOverAndKeepsItsTurn) {
  add(1, 1);
  add(2, 1);
  const auto next = queue_.next([](RunId run) { return run != RunId(1); });
  EXPECT_EQ(next, RunId(2));
  EXPECT_EQ(all(), "1 2 ");
}

TEST_F(RunQueueTest, WhatIsInOrderComesBehindTheSessionsRunsAndAheadOfItsLaterOnes) {
  add(1, 1);
  queue_.in_order(SessionId(1), tell());
  add(2, 1);
  EXPECT_EQ(all(), "1 told 2 ");
  EXPECT_EQ(told_, Ticket(2)) << "of its own";
  EXPECT_EQ(queue_.next_ticket(), Ticket(4));
}

TEST_F(RunQueueTest, ARunThatEndsWithoutItsTurnHoldsNothingUp) {
  add(1, 1);
  queue_.in_order(SessionId(1), tell());
  add(2, 1);
  queue_.remove(RunId(1));
  EXPECT_EQ(all(), "told 2 ");
}

TEST_F(RunQueueTest, OtherSessionsPassWhatWaitsForItsTurn) {
  add(1, 1);
  queue_.in_order(SessionId(1), tell());
  add(2, 1);
  add(3, 2);
  const auto next = queue_.next([](RunId run) { return run != RunId(1); });
  EXPECT_EQ(next, RunId(3));
  queue_.in_order(SessionId(3), [this](Ticket) { order_ += "at once "; });
  EXPECT_EQ(order_, "at once ");
}

TEST_F(RunQueueTest, OfASessionThatIsClosedNothingIsTold) {
  add(1, 1);
  queue_.in_order(SessionId(1), tell());
  queue_.session_closed(SessionId(1));
  EXPECT_EQ(all(), "1 ");
}

}  // namespace
}  // namespace gangway
