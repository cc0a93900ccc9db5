#include "client/spin_habit.h"

#include <gtest/gtest.h>

namespace gangway::internal {
namespace {

// Waits, and whether each is over soon if it spins.
int spins(SpinHabit& habit, int waits, bool soon) {
  int spun = 0;
  for (int i = 0; i < waits; ++i) {
    if (!habit.begin()) continue;
    habit.end(soon);
    ++spun;
  }
  return spun;
}

TEST(SpinHabit, SpinsWhileWaitsEndSoon) {
  SpinHabit habit;
  EXPECT_EQ(spins(habit, 1000, true), 1000);
}

TEST(SpinHabit, WhereWaitsAreLongItTriesOnceInAWhile) {
  SpinHabit habit;
  EXPECT_EQ(spins(habit, 4, false), 4);
  EXPECT_EQ(spins(habit, 1600, false), 100);
}

TEST(SpinHabit, OneLongWaitAmongShortOnesChangesNothing) {
  SpinHabit habit;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(spins(habit, 1, false), 1);
    EXPECT_EQ(spins(habit, 1, true), 1);
  }
}

TEST(SpinHabit, WaitsThatEndSoonAgainAreSpunAgain) {
  SpinHabit habit;
  spins(habit, 100, false);
  EXPECT_GE(spins(habit, 116, true), 100);
}

}  // namespace
}  // namespace gangway::internal
