#include "executor/data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr size_t kTokens = 64;

void fill_with_position(uint64_t position, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int32_t>(position * 1000 + i);
}

std::vector<int32_t> batch(uint64_t position) {
  std::vector<int32_t> tokens(kTokens);
  fill_with_position(position, tokens);
  return tokens;
}

std::vector<int32_t> take(Prefetcher& prefetcher, uint64_t position) {
  std::vector<int32_t> tokens(kTokens);
  prefetcher.take(position, tokens);
  return tokens;
}

TEST(Prefetcher, GivesEveryPositionsOwnBatchInOrderAndAfterJumps) {
  Prefetcher prefetcher({.tokens = kTokens, .depth = 3}, 5, fill_with_position);
  for (uint64_t p = 5; p < 2000; ++p) ASSERT_EQ(take(prefetcher, p), batch(p));
  for (uint64_t p : {7, 7, 8, 3, 4, 1000000, 1000001, 0, 1, 2, 5}) {
    ASSERT_EQ(take(prefetcher, p), batch(p));
  }
}

TEST(Prefetcher, FillsAheadExactlyItsDepthAndThenServesFromMemory) {
  std::atomic<int> filled = 0;
  Prefetcher prefetcher({.tokens = kTokens, .depth = 4}, 10, [&](uint64_t p, auto out) {
    fill_with_position(p, out);
    filled.fetch_add(1);
    filled.notify_all();
  });
  for (int seen = 0; seen < 4; seen = filled.load()) filled.wait(seen);
  EXPECT_EQ(filled.load(), 4);
  // The worker marks a batch ready just after filling it: the first three are so already.
  for (uint64_t p = 10; p < 13; ++p) EXPECT_EQ(take(prefetcher, p), batch(p));
  EXPECT_EQ(prefetcher.counts().hits, 3);
  EXPECT_EQ(prefetcher.counts().misses, 0);
}

TEST(Prefetcher, ATakerDoesNotWaitForABusyWorker) {
  std::atomic<bool> released = false;
  std::atomic<int> entered = 0;
  Prefetcher prefetcher({.tokens = kTokens, .depth = 2}, 0, [&](uint64_t p, auto out) {
    if (entered.fetch_add(1) == 0) {
      entered.notify_all();
      released.wait(false);
    }
    fill_with_position(p, out);
  });
  entered.wait(0);
  EXPECT_EQ(take(prefetcher, 0), batch(0));
  EXPECT_EQ(take(prefetcher, 1), batch(1));
  EXPECT_EQ(prefetcher.counts().misses, 2);
  released = true;
  released.notify_all();
}

TEST(Prefetcher, AnErrorMetAheadOfTimeIsThrownToWhoTakesThatPosition) {
  Prefetcher prefetcher({.tokens = kTokens}, 0, [](uint64_t p, auto out) {
    GW_REQUIRE(p != 2, "batch ", p, " is bad");
    fill_with_position(p, out);
  });
  EXPECT_EQ(take(prefetcher, 0), batch(0));
  EXPECT_EQ(take(prefetcher, 1), batch(1));
  EXPECT_THROW(take(prefetcher, 2), Error);
  EXPECT_EQ(take(prefetcher, 3), batch(3));
}

TEST(Prefetcher, TakersOnSeveralThreadsGetTheirOwnBatches) {
  Prefetcher prefetcher({.tokens = kTokens, .depth = 2}, 0, fill_with_position);
  std::atomic<int> wrong = 0;
  std::vector<Thread> takers;
  for (uint64_t t = 0; t < 3; ++t) {
    takers.emplace_back("taker", [&, t] {
      for (uint64_t p = t; p < 3000; p += 3) wrong += take(prefetcher, p) != batch(p);
    });
  }
  for (Thread& taker : takers) taker.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Prefetcher, RefusesWrongRoomAndDepth) {
  Prefetcher prefetcher({.tokens = kTokens}, 0, fill_with_position);
  std::vector<int32_t> small(kTokens - 1);
  EXPECT_THROW(prefetcher.take(0, small), Error);
  EXPECT_THROW(Prefetcher({.tokens = 1, .depth = 0}, 0, fill_with_position), Error);
}

}  // namespace
}  // namespace gangway
