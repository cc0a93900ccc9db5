#include "controller/slices/placement_reason.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

OfferedHost host(uint32_t id, const std::string& island, std::vector<OfferedDevice> offered) {
  return {.id = HostId(id), .island = island, .devices = 4, .offered = std::move(offered)};
}

TEST(PlacementReason, ReasonsNameTheAlternativesAndTheChoice) {
  const std::vector<OfferedHost> hosts = {host(1, "east", {{0, 0}, {1, 0}, {2, 0}}),
                                          host(2, "east", {}), host(3, "west", {{0, 0}, {1, 2}})};
  EXPECT_EQ(placement_reason(hosts, {{HostId(1), 0}, {HostId(1), 1}}),
            "the best of 2 hosts in 2 islands: 1 host of island east, whose devices had no other "
            "slice; 1 of its devices is left unused");
  EXPECT_EQ(placement_reason(hosts, {{HostId(1), 0}, {HostId(3), 1}}),
            "the best of 2 hosts in 2 islands: 2 hosts of islands east, west, whose devices had at "
            "most 2 other slices; 3 of their devices are left unused");
  EXPECT_EQ(
      placement_reason({hosts[0]}, {{HostId(1), 0}}),
      "the only host with devices: 1 host of island east, whose devices had no other slice; 2 "
      "of its devices are left unused");
}

}  // namespace
}  // namespace gangway
