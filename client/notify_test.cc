#include "client/notify.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/os/thread.h"

namespace gangway::internal {
namespace {

using namespace std::chrono_literals;

TEST(Notify, AWaitingThreadChecksOnceItselfAndEachChangeThenChecksForIt) {
  Notify notify;
  int ended = 0;
  int looks = 0;
  std::atomic<bool> waits{false};
  Thread waiter("waiter", [&] {
    notify.wait([&] {
      ++looks;
      waits = true;
      return ended == 8;
    });
  });
  while (!waits) {
  }
  for (int i = 0; i < 8; ++i) notify.change([&] { ++ended; });
  waiter.join();
  EXPECT_EQ(looks, 1 + 8);
}

TEST(Notify, APlaceThatOneWaitingThreadTakesIsNotGivenToAnother) {
  Notify notify;
  int places = 0, taken = 0;
  std::atomic<int> waiting{0};
  const auto take = [&] {
    if (places == 0) {
      ++waiting;
      return false;
    }
    --places;
    ++taken;
    return true;
  };
  std::vector<Thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back("taker", [&] { notify.wait(take); });
  while (waiting < 3) {
  }
  for (int i = 1; i <= 3; ++i) {
    notify.change([&] { ++places; });
    EXPECT_EQ(taken, i);
    EXPECT_EQ(places, 0);
  }
}

TEST(Notify, AThreadThatHasWaitedLongEnoughIsForgotten) {
  Notify notify;
  int looks = 0;
  EXPECT_FALSE(notify.wait_for(
      [&] {
        ++looks;
        return false;
      },
      1us));
  notify.change([] {});
  EXPECT_EQ(looks, 1);
  EXPECT_TRUE(notify.wait_for([] { return true; }, 0us));
}

}  // namespace
}  // namespace gangway::internal
