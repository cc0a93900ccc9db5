// Tests which graphs a device keeps, and when it releases them.
#include "executor/devices/cuda/graph_cache.h"

#include <gtest/gtest.h>

#include "tests/emulated/gpu_test.h"

namespace gangway::cuda {
namespace {

using emulated::EmulatedMachine;

constexpr auto kMax = static_cast<uint32_t>(GraphCache::kGraphsMax);

// One function whose stretches each fill a buffer.
class GraphCacheTest : public testing::Test {
 protected:
  GraphCacheTest() : buffer(gpu.buffer<std::byte>(64)) {}
  ~GraphCacheTest() override {
    machine.run_all();
    EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
    cache = nullptr;
    EXPECT_EQ(machine.report_text(), "");
  }

  // Answers whether a graph was launched.
  bool run(uint32_t stretch, std::byte* base = nullptr) {
    std::byte* const bases[] = {buffer, base};
    Status status;
    const bool replayed = cache->replay(
        gpu.at("stretch"), {owner, stretch, stretch + 1, 0, bases},
        [&](StreamHandle on) { return gpu.driver.fill({on, "fill"}, buffer, 0, 64); }, status);
    EXPECT_TRUE(status.ok());
    return replayed;
  }

  EmulatedMachine machine{{.seed = 1}};
  emulated::Gpu gpu{machine};
  std::byte* const buffer;
  std::shared_ptr<const void> alive = std::make_shared<int>(), keeps = std::make_shared<int>();
  GraphOwner owner{1, alive, keeps};
  std::unique_ptr<GraphCache> cache =
      std::make_unique<GraphCache>(gpu.driver, gpu.driver.make_stream("capture").take());
};

TEST_F(GraphCacheTest, AStretchThatRunsASecondTimeIsCaptured) {
  EXPECT_FALSE(run(1));
  EXPECT_TRUE(run(1));
  EXPECT_TRUE(run(1));
  EXPECT_EQ(cache->captures(), 1u);
}

TEST_F(GraphCacheTest, AStretchWithOtherAddressesEachTimeIsNeverCapturedAndDisplacesNothing) {
  for (int i = 0; i < 2; ++i) run(1);
  for (int64_t i = 1; i <= 4000; ++i) EXPECT_FALSE(run(2, buffer + i));
  EXPECT_TRUE(run(1));
  EXPECT_EQ(cache->captures(), 1u);
}

TEST_F(GraphCacheTest, ANewGraphTakesThePlaceOfTheOneThatWasUsedLongestAgo) {
  for (uint32_t stretch = 0; stretch < kMax; ++stretch) {
    for (int i = 0; i < 2; ++i) run(stretch);
  }
  for (uint32_t stretch = 1; stretch < kMax; ++stretch) EXPECT_TRUE(run(stretch));
  EXPECT_FALSE(run(kMax));
  EXPECT_TRUE(run(kMax));
  EXPECT_EQ(cache->size(), kMax);
  EXPECT_EQ(cache->captures(), kMax + 1);
  for (uint32_t stretch = 1; stretch <= kMax; ++stretch) EXPECT_TRUE(run(stretch));
  EXPECT_EQ(cache->captures(), kMax + 1);
}

TEST_F(GraphCacheTest, ACycleOfMoreStretchesThanGraphsKeepsThoseItHas) {
  const uint64_t cycles = 10;
  for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
    for (uint32_t stretch = 0; stretch < kMax + 30; ++stretch) run(stretch);
  }
  EXPECT_EQ(cache->captures(), kMax);
  EXPECT_EQ(cache->launches(), kMax * (cycles - 1));
}

TEST_F(GraphCacheTest, AGraphThatIsUnderWayIsDestroyedOnceItHasEnded) {
  machine.hold("fill");
  for (uint32_t stretch = 0; stretch < kMax + 4; ++stretch) {
    for (int i = 0; i < 2; ++i) run(stretch);
  }
  EXPECT_EQ(machine.report_text(), "");
  machine.release();
  machine.run_all();
  EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
  cache->trim();
  EXPECT_EQ(cache->size(), kMax);
}

TEST_F(GraphCacheTest, TheGraphsOfAFunctionThatIsGoneAreDroppedWithWhatTheyUse) {
  const std::weak_ptr<const void> used = keeps;
  for (int i = 0; i < 2; ++i) run(1);
  EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
  keeps = owner.keeps = nullptr;
  cache->trim();
  EXPECT_EQ(cache->size(), 1u);
  EXPECT_FALSE(used.expired());
  alive = nullptr;
  cache->trim();
  EXPECT_EQ(cache->size(), 0u);
  EXPECT_TRUE(used.expired());
}

}  // namespace
}  // namespace gangway::cuda
