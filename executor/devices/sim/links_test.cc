#include "executor/devices/sim/links.h"

#include <gtest/gtest.h>

namespace gangway::links_test {
namespace {

using Kind = CollectiveKind;

// Peers of one member: 1 on its host, 2 in its island, 4 beyond it; 8 members in all.
constexpr PeerCounts kPeers = {1, 2, 4};
constexpr double kBytes = 8e9;

// Rates of 200, 50 and 12.5 GB/s; latencies of 1, 5 and 50 us; 10 us for the launch.
TEST(SimLinks, ChargeEachKindOfCollectiveByItsFormula) {
  const SimLinks links;
  // 2 levels of 2 members, of 8 and 4 GB, and one of 2 islands, of 2 GB.
  constexpr int64_t kOneWay = 1'000 + 20'000'000 + 5'000 + 40'000'000 + 50'000 + 80'000'000;
  EXPECT_EQ(links.collective_ns(Kind::kAllReduce, kBytes, kPeers), 10'000 + 2 * kOneWay);
  EXPECT_EQ(links.collective_ns(Kind::kAllGather, kBytes, kPeers), 10'000 + kOneWay);
  EXPECT_EQ(links.collective_ns(Kind::kReduceScatter, kBytes, kPeers), 10'000 + kOneWay);
  // 1 GB to each other.
  constexpr int64_t kEach = 1'000 + 5'000'000 + 5'000 + 40'000'000 + 50'000 + 320'000'000;
  EXPECT_EQ(links.collective_ns(Kind::kAllToAll, kBytes, kPeers), 10'000 + kEach);
  EXPECT_EQ(links.collective_ns(Kind::kRaggedAllToAll, kBytes, kPeers), 10'000 + kEach);
  EXPECT_EQ(links.collective_ns(Kind::kPermute, kBytes, kPeers), 10'000 + 50'000 + 640'000'000);
  EXPECT_EQ(links.collective_ns(Kind::kBroadcast, kBytes, kPeers),
            10'000 + 1'000 + 5'000 + 50'000 + 640'000'000);
}

TEST(SimLinks, OneMemberMovesNothing) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllToAll, Kind::kPermute, Kind::kBroadcast})
    EXPECT_EQ(SimLinks().collective_ns(kind, kBytes, PeerCounts{}), 10'000);
}

}  // namespace
}  // namespace gangway::links_test
