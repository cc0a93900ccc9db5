#include "executor/service/back_off.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(BackOffTest, WaitsTwiceAsLongEachTimeUpToItsLimitAndByChanceLess) {
  BackOff back_off(Rng(tests::test_seed()), {.first_ms = 100, .max_ms = 1000});
  for (int round = 0; round < 2; ++round) {
    for (const int64_t full_ms : {100, 200, 400, 800, 1000, 1000, 1000}) {
      const int64_t ns = back_off.next_ns();
      EXPECT_GE(ns, full_ms * 500'000);
      EXPECT_LE(ns, full_ms * 1'000'000);
    }
    back_off.reset();
  }
}

TEST(BackOffTest, ProcessesThatLoseTheirPeerTogetherRetryAtDifferentTimes) {
  std::set<int64_t> waits;
  for (uint64_t seed = 0; seed < 100; ++seed)
    waits.insert(BackOff(Rng(tests::test_seed() + seed), {}).next_ns());
  EXPECT_GT(waits.size(), 95u);
}

}  // namespace
}  // namespace gangway
