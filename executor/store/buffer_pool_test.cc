#include "executor/store/buffer_pool.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

class BufferPoolTest : public testing::Test {
 protected:
  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<DeviceMemory>("device 0", 1024);
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(*memory_, 256, "outputs", 2);
};

TEST_F(BufferPoolTest, AReservedBufferIsHandedOutAgain) {
  std::byte* const data = pool_->take()->data();
  EXPECT_EQ(pool_->take()->data(), data);
  EXPECT_EQ(memory_->in_use(), 512);
}

// The controller counts the buffers that a client holds beyond the reserved ones, and nothing else:
// memory that it believes to be free must be.
TEST_F(BufferPoolTest, AResultThatAClientDropsBeyondTheReservedOnesFreesItsMemory) {
  const BufferPtr first = pool_->take(), second = pool_->take();
  BufferPtr third = pool_->take();
  EXPECT_EQ(memory_->in_use(), 768);
  third = nullptr;
  EXPECT_EQ(memory_->in_use(), 512);
}

TEST_F(BufferPoolTest, AClosedPoolKeepsNothing) {
  BufferPtr held = pool_->take();
  pool_->close();
  EXPECT_EQ(memory_->in_use(), 256);
  held = nullptr;
  EXPECT_EQ(memory_->in_use(), 0);
}

}  // namespace
}  // namespace gangway
