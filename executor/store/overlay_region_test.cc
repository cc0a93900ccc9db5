#include "executor/store/overlay_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "executor/store/buffer.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr int64_t kKiB = 1024;

class OverlayRegionTest : public testing::Test {
 protected:
  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<DeviceMemory>("host-0/0", 64 * kKiB);
  std::shared_ptr<OverlayRegion> region_ = std::make_shared<OverlayRegion>(*memory_);
};

TEST_F(OverlayRegionTest, TakesWhatTheLargestOfItsPlansNeedsToTheByte) {
  auto small = region_->place(10 * kKiB + 256, "small");
  EXPECT_EQ(memory_->in_use(), 10 * kKiB + 256);
  auto large = region_->place(40 * kKiB, "large");
  EXPECT_EQ(memory_->in_use(), 40 * kKiB);
  EXPECT_EQ(memory_->peak(), 40 * kKiB) << "it never had both";
  auto other = region_->place(20 * kKiB, "other");
  EXPECT_EQ(memory_->in_use(), 40 * kKiB);
  large = nullptr;
  EXPECT_EQ(memory_->in_use(), 20 * kKiB);
  other = nullptr;
  EXPECT_EQ(memory_->in_use(), 10 * kKiB + 256);
  small = nullptr;
  EXPECT_EQ(memory_->in_use(), 0);
}

TEST_F(OverlayRegionTest, PlacesStayWhereTheyAreWhenLargerOnesComeAndGo) {
  const auto small = region_->place(8 * kKiB, "small");
  std::memset(small.get(), 7, 8 * kKiB);
  auto large = region_->place(48 * kKiB, "large");
  EXPECT_EQ(large.get(), small.get());
  EXPECT_EQ(small.get()[8 * kKiB - 1], std::byte{7});
  std::memset(large.get(), 9, 48 * kKiB);
  large = nullptr;
  EXPECT_EQ(small.get()[8 * kKiB - 1], std::byte{9});
  large = region_->place(48 * kKiB, "large");
  EXPECT_EQ(large.get()[48 * kKiB - 1], std::byte{0}) << "its pages had gone";
}

TEST_F(OverlayRegionTest, APlanThatDoesNotFitIsRefusedAndTakesNoMemory) {
  const auto small = region_->place(8 * kKiB, "small");
  const BufferPtr other = allocate_buffer(*memory_, 40 * kKiB, "other");
  const Error error = error_of([&] { region_->place(32 * kKiB, "program \"large\""); });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.what(), HasSubstr("program \"large\": does not fit: needs 24.0 KiB"));
  EXPECT_EQ(memory_->in_use(), 48 * kKiB);
  EXPECT_EQ(region_->bytes(), 8 * kKiB);
  const auto fits = region_->place(24 * kKiB, "fits");
  EXPECT_EQ(memory_->in_use(), 64 * kKiB);
}

TEST_F(OverlayRegionTest, OneRunEntersTheRegionWithAllItsRanks) {
  EXPECT_TRUE(region_->enter(RunId(1)));
  EXPECT_TRUE(region_->enter(RunId(1)));
  EXPECT_FALSE(region_->enter(RunId(2)));
  region_->leave(RunId(1));
  EXPECT_FALSE(region_->enter(RunId(2)));
  EXPECT_EQ(region_->inside(), RunId(1));
  region_->leave(RunId(1));
  EXPECT_TRUE(region_->enter(RunId(2)));
}

}  // namespace
}  // namespace gangway
