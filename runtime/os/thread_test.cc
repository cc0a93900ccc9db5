#include "runtime/os/thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include "runtime/os/doorbell.h"

namespace gangway {
namespace {

TEST(Thread, RunsUnderItsNameAndIsJoinedWhenTheHandleDies) {
  std::string name;
  {
    Thread thread("device-0", [&] { name = thread_name(); });
  }
  EXPECT_EQ(name, "device-0");
}

TEST(Thread, JoinThrowsTheBodysError) {
  Thread thread("bad", [] { throw Error(ErrorKind::kLost, "gone"); });
  try {
    thread.join();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLost);
  }
}

TEST(SpinPolicy, NeverSpinsWhenThreadsOutnumberCores) {
  EXPECT_EQ(SpinPolicy::for_threads(available_cores() + 1).spin_ns, 0);
  EXPECT_GT(SpinPolicy::for_threads(1).spin_ns, 0);
}

// Each side waits for the other's number: a missed ring would hang.
void play_ping_pong(SpinPolicy policy, int rounds) {
  Doorbell ping, pong;
  std::atomic<int> ball{0};
  const auto wait_for = [policy, &ball](Doorbell& bell, int value) {
    while (true) {
      const uint32_t ticket = bell.ticket();
      if (ball.load() == value) return;
      bell.wait(ticket, policy);
    }
  };
  Thread other("pong", [&] {
    for (int i = 0; i < rounds; ++i) {
      wait_for(ping, 2 * i + 1);
      ball = 2 * i + 2;
      pong.ring();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ball = 2 * i + 1;
    ping.ring();
    wait_for(pong, 2 * i + 2);
  }
  other.join();
  EXPECT_EQ(ball.load(), 2 * rounds);
}

TEST(Doorbell, NeverMissesARingWhenParking) { play_ping_pong(SpinPolicy::park(), 5000); }
TEST(Doorbell, NeverMissesARingWhenSpinning) { play_ping_pong(SpinPolicy::for_threads(2), 5000); }

// Processor time that this process has used.
double cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

TEST(Doorbell, AWaiterThatSpinsGivesTheCoreToWhoWillRing) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  constexpr int kRounds = 200;
  const double began_us = cpu_us();
  play_ping_pong({"spin", 1'000'000'000}, kRounds);
  const double us_per_ring = (cpu_us() - began_us) / (2 * kRounds);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_LT(us_per_ring, 300) << "else it spins until the system takes the core away";
}

TEST(Doorbell, SpinSaysWhetherARingCame) {
  Doorbell bell;
  EXPECT_FALSE(bell.spin(bell.ticket(), 1'000'000).is_rung);
  const uint32_t ticket = bell.ticket();
  bell.ring();
  EXPECT_TRUE(bell.spin(ticket, 1'000'000'000).is_rung);
}

TEST(Doorbell, WaitEndsAtItsTimeLimit) {
  Doorbell bell;
  EXPECT_FALSE(bell.wait(bell.ticket(), SpinPolicy::park(), 1'000'000));
  EXPECT_FALSE(bell.wait(bell.ticket(), SpinPolicy::spin_then_park(), 1'000'000));
  const uint32_t ticket = bell.ticket();
  bell.ring();
  EXPECT_TRUE(bell.wait(ticket, SpinPolicy::park(), 1'000'000));
}

}  // namespace
}  // namespace gangway
