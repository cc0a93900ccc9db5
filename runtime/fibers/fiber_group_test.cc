#include "runtime/fibers/fiber_group.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/fibers/await.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

TEST(FiberGroupTest, EndsWithItsOwner) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    bool is_cancelled = false;
    WaitQueue never;
    {
      FiberGroup fibers(*reactor);
      fibers.spawn("waits", [&] {
        try {
          never.wait("for nothing");
        } catch (const Error& error) {
          is_cancelled = error.kind() == ErrorKind::kCancelled;
          throw;
        }
      });
      WaitQueue().wait_until_ns("for it to begin", reactor->clock().now_ns() + 1);
    }
    EXPECT_TRUE(is_cancelled);
  });
}

TEST(FiberGroupTest, TakesNothingOnceItIsCancelled) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    bool ran = false;
    FiberGroup fibers(*reactor);
    fibers.cancel();
    const auto late = [&] { ran = true; };
    EXPECT_EQ(error_of([&] { fibers.spawn("late", late); }).kind(), ErrorKind::kCancelled);
    EXPECT_EQ(error_of([&] { await(in_fiber(fibers, "late call", late)); }).kind(),
              ErrorKind::kCancelled);
    EXPECT_FALSE(ran);
  });
}

}  // namespace
}  // namespace gangway
