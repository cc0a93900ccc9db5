#include "controller/hosts/freed_memory.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(FreedMemoryTest, AWatchComesOnceWhenADeviceReachesOneOfItsSizes) {
  FreedMemory freed;
  int came = 0;
  const auto count = [&] { ++came; };
  const FreedMemory::Watch watch(freed, {100, 300}, count);
  freed.grew(0, 99);
  freed.grew(100, 299);
  freed.grew(300, 1000);
  EXPECT_EQ(came, 0) << "no device has reached a size that it had not before";
  freed.grew(50, 500);
  EXPECT_EQ(came, 1) << "both sizes are of one watch";
  freed.grew(50, 500);
  EXPECT_EQ(came, 1);
  EXPECT_FALSE(freed.is_watched());
}

TEST(FreedMemoryTest, AWatchThatHasEndedIsNotCalled) {
  FreedMemory freed;
  int came = 0;
  {
    const FreedMemory::Watch watch(freed, {10}, [&] { ++came; });
    EXPECT_TRUE(freed.is_watched());
  }
  EXPECT_FALSE(freed.is_watched());
  const FreedMemory::Watch other(freed, {20}, [&] { came += 100; });
  freed.grew(0, 20);
  EXPECT_EQ(came, 100);
}

}  // namespace
}  // namespace gangway
