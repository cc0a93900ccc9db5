#include "runtime/fibers/reactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/fibers/mailbox.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

enum class Kind { kReal, kSimulated };

std::unique_ptr<Reactor> make(Kind kind) {
  return kind == Kind::kReal ? Reactor::make_real() : Reactor::make_simulated();
}

std::string name_of(const testing::TestParamInfo<Kind>& param) {
  return param.param == Kind::kReal ? "Real" : "Simulated";
}

class ReactorTest : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Reactor> reactor_ = make(GetParam());
};

void work_for_ms(int64_t ms) {
  const Clock& clock = Reactor::current().clock();
  for (const int64_t until_ns = clock.now_ns() + ms * 1'000'000; clock.now_ns() < until_ns;) {
  }
}

TEST(RealReactorTest, TheLongestStretchOfAReactorCountsWorkAndNoSleep) {
  // A slow machine may delay some of the sleeps; if sleeping counted as work, all would be long.
  int64_t slept_ns = 30'000'000;
  for (int i = 0; i < 100 && slept_ns >= 20'000'000; ++i) {
    const auto sleeps = Reactor::make_real();
    sleeps->run([&] { sleeps->clock().sleep_for(30ms); });
    slept_ns = sleeps->longest_stretch_ns();
  }
  EXPECT_LT(slept_ns, 20'000'000) << "sleeping is no work";
  const auto reactor = Reactor::make_real();
  reactor->run([] { work_for_ms(40); });
  // Other threads may have had the core meanwhile, and a little before.
  EXPECT_GT(reactor->longest_stretch_ns(), 0);
  EXPECT_LT(reactor->longest_stretch_ns(), 5'000'000'000);
}

TEST(RealReactorDeathTest, AReactorThatIsHeldUpForLongerThanATestAllowsEndsItsProcess) {
  const auto held_up = [] {
    setenv("GANGWAY_REACTOR_LIMIT_MS", "1", 1);
    const auto reactor = Reactor::make_real();
    while (true) reactor->run([] { work_for_ms(50); });
  };
  EXPECT_DEATH(held_up(), "reactor: held up for [0-9.]+ ms: expected at most 1.0 ms");
}

INSTANTIATE_TEST_SUITE_P(Ports, ReactorTest, testing::Values(Kind::kReal, Kind::kSimulated),
                         name_of);

TEST_P(ReactorTest, RunsABodyAsAFiberAndReturnsItsResult) {
  EXPECT_FALSE(reactor_->in_fiber());
  EXPECT_EQ(reactor_->run([&] { return reactor_->in_fiber() ? 3 : 4; }), 3);
}

TEST_P(ReactorTest, JoinThrowsWhatTheFiberThrew) {
  Fiber fiber = reactor_->spawn("bad", [] { throw Error(ErrorKind::kLost, "gone"); });
  try {
    fiber.join();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLost);
  }
}

TEST_P(ReactorTest, FibersRunInTheOrderInWhichTheyBecameReady) {
  std::vector<int> order;
  std::vector<Fiber> fibers;
  for (int i = 0; i < 5; ++i)
    fibers.push_back(reactor_->spawn("f", [&order, i] { order.push_back(i); }));
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(ReactorTest, SleepersWakeInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  std::vector<Fiber> fibers;
  for (int ms : {9, 3, 6}) {
    fibers.push_back(reactor_->spawn("sleeper", [&, ms] {
      reactor_->clock().sleep_for(std::chrono::milliseconds(ms));
      order.push_back(ms);
    }));
  }
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_THAT(order, testing::ElementsAre(3, 6, 9));
}

TEST_P(ReactorTest, ManyThousandFibersLiveAtOnceAndFreeTheirStacks) {
  constexpr int kFibers = GW_MANY_FIBERS;
  WaitQueue gate;
  int ended = 0;
  std::vector<Fiber> fibers;
  for (int i = 0; i < kFibers; ++i) {
    fibers.push_back(reactor_->spawn("many", [&] {
      gate.wait("at the gate");
      ++ended;
    }));
  }
  reactor_->run_ready();
  EXPECT_EQ(reactor_->live_fibers(), size_t{kFibers});
  gate.wake_all();
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_EQ(ended, kFibers);
  EXPECT_EQ(reactor_->live_fibers(), 0u);
}

TEST_P(ReactorTest, CancelThrowsInTheFiberOnce) {
  std::string seen;
  Fiber fiber = reactor_->spawn("waiter", [&] {
    WaitQueue never;
    try {
      never.wait("for nothing");
    } catch (const Error& error) {
      seen = error.what();
    }
    reactor_->clock().sleep_for(1ms);
  });
  reactor_->run_ready();
  fiber.cancel();
  fiber.join();
  EXPECT_THAT(seen, HasSubstr("fiber \"waiter\": cancelled while waiting for nothing"));
}

TEST_P(ReactorTest, DestroyingItCancelsTheFibersThatStillWait) {
  bool unwound = false;
  reactor_
      ->spawn("forever",
              [&] {
                struct Note {
                  bool& flag;
                  ~Note() { flag = true; }
                } note{unwound};
                WaitQueue never;
                never.wait("for nothing");
              })
      .detach();
  reactor_->run_ready();
  EXPECT_FALSE(unwound);
  reactor_.reset();
  EXPECT_TRUE(unwound);
}

TEST_P(ReactorTest, SuspendingInsideACatchBlockKeepsEachFibersException) {
  constexpr int kFibers = 100;
  int right = 0;
  std::vector<Fiber> fibers;
  for (int i = 0; i < kFibers; ++i) {
    fibers.push_back(reactor_->spawn("catcher", [&, i] {
      try {
        try {
          throw i;
        } catch (int) {
          reactor_->clock().sleep_for(std::chrono::microseconds(1 + i * 37 % 100));
          throw;
        }
      } catch (int mine) {
        right += mine == i;
      }
    }));
  }
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_EQ(right, kFibers);
}

TEST_P(ReactorTest, ADescriptionOfManyFibersShowsFiftyAndTheNumberOfAll) {
  WaitQueue never;
  std::vector<Fiber> fibers;
  for (int i = 0; i < 60; ++i)
    fibers.push_back(reactor_->spawn("one of many", [&] { never.wait("for long"); }));
  reactor_->run_ready();
  const std::string text = reactor_->describe_fibers();
  EXPECT_EQ(std::ranges::count(text, '\n'), 51);
  EXPECT_THAT(text, testing::StartsWith("    \"one of many\" waits for long\n"));
  EXPECT_THAT(text, testing::EndsWith("\n    ... of 60 in all\n"));
  never.wake_all();
  for (Fiber& fiber : fibers) fiber.join();
}

TEST_P(ReactorTest, ErrorOfADetachedFiberIsReported) {
  std::string text;
  reactor_->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    text = fiber + ": " + error.message();
  };
  reactor_->spawn("orphan", [] { throw Error(ErrorKind::kBug, "oops"); }).detach();
  reactor_->run_ready();
  EXPECT_EQ(text, "orphan: oops");
}

TEST_P(ReactorTest, WaitWithATimeLimitSaysWhetherItWasWoken) {
  WaitQueue queue;
  EXPECT_FALSE(reactor_->run(
      [&] { return queue.wait_until_ns("for a wake", reactor_->clock().now_ns() + 1'000'000); }));
  Fiber waker = reactor_->spawn("waker", [&] {
    reactor_->clock().sleep_for(1ms);
    queue.wake_one();
  });
  EXPECT_TRUE(reactor_->run([&] {
    return queue.wait_until_ns("for a wake", reactor_->clock().now_ns() + 3'600'000'000'000);
  }));
  waker.join();
}

TEST(SimulatedReactor, VirtualTimeJumpsExactlyAndCostsNothing) {
  auto reactor = Reactor::make_simulated({.start_ns = 5});
  reactor->run([&] { reactor->clock().sleep_for(1000h); });
  EXPECT_EQ(reactor->clock().now_ns(), 5 + 1000LL * 3600 * 1'000'000'000);
}

TEST(SimulatedReactor, DeadlockIsReportedWithTheFibersAndWhatTheyWaitFor) {
  auto reactor = Reactor::make_simulated();
  WaitQueue never;
  Fiber stuck = reactor->spawn("controller", [&] { never.wait("for a host"); });
  try {
    stuck.join();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("deadlock"));
    EXPECT_THAT(error.what(), HasSubstr("\"controller\" waits for a host"));
  }
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  reactor.reset();
}

TEST(SimulatedReactor, EndlessTimersEndAtTheTimeLimit) {
  auto reactor = Reactor::make_simulated({.time_limit_ns = 1'000'000});
  EXPECT_THROW(reactor->run([&] {
    while (true) reactor->clock().sleep_for(1us);
  }),
               Error);
}

TEST(Reactor, TwoReactorsInOneThreadAreRefused) {
  auto first = Reactor::make_real();
  EXPECT_THROW(Reactor::make_real(), Error);
}

}  // namespace
}  // namespace gangway
