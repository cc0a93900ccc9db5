#include "runtime/fibers/fiber_stack.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/fibers/reactor.h"

namespace gangway {
namespace {

TEST(FiberStack, IsReusedAndLeavesAGuardPageBelow) {
  internal::StackPool pool;
  const internal::StackRange first = pool.take();
  EXPECT_EQ(static_cast<size_t>(first.high - first.low),
            internal::kFiberStackBytes + pool.guard_bytes());
  std::memset(first.low + pool.guard_bytes(), 1, internal::kFiberStackBytes);
  pool.give_back(first);
  EXPECT_EQ(pool.take().low, first.low);
  EXPECT_EQ(pool.mapped(), 1u);
  pool.give_back(first);
}

// Uses up the stack, a kilobyte at a time, where the compiler can't see that it never ends.
int recurse(volatile char* above, int depth) {
  volatile char block[1024];
  block[0] = above[0];
  return depth == 0 ? block[0] : recurse(block, depth - 1) + block[0];
}

TEST(FiberStackDeathTest, OverflowNamesTheFiberAndTheSizeOfItsStack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto reactor = Reactor::make_simulated();
        reactor
            ->spawn("deep",
                    [] {
                      volatile char start[1] = {1};
                      volatile int result = recurse(start, 1'000'000);
                      (void)result;
                    })
            .join();
      },
      "fiber \"deep\": its stack of 256 KiB overflowed|stack-overflow");
}

}  // namespace
}  // namespace gangway
