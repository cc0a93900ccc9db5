#include "executor/collectives/hosts/group_links.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/support/seed.h"

namespace gangway::group_links_test {
namespace {

LinkClass link_to(uint32_t host) { return host < 3 ? LinkClass::kIsland : LinkClass::kHost; }

std::map<std::string, int64_t> areas_of(const GroupView& group) {
  std::map<std::string, int64_t> areas;
  for (uint32_t index = 0; index < group.here().size(); ++index)
    for_each_area(group, index, [&](const std::string& name, int64_t bytes) {
      EXPECT_TRUE(areas.emplace(name, bytes).second) << name;
    });
  return areas;
}

TEST(GroupLinks, AnExchangeOfCountedMembersIsTheGroupOfAllOfThem) {
  std::mt19937_64 random(tests::test_seed());
  for (int round = 0; round < 100; ++round) {
    std::vector<MembersOfHost> hosts;
    std::vector<GroupDevice> devices;
    for (uint32_t host = 0; host < 1 + static_cast<uint32_t>(round) % 9; ++host) {
      const auto count = static_cast<uint32_t>(1 + random() % 4);
      const auto first = static_cast<uint32_t>(random() % 3);
      hosts.push_back({host, count, count, first});
      for (uint32_t device = first; device < first + count; ++device)
        devices.push_back({host, device});
    }
    for (const MembersOfHost& self : hosts) {
      std::vector<uint32_t> here;
      for (uint32_t m = 0; m < self.members; ++m) here.push_back(self.first_device + m);
      const GroupView counted = exchange_of("gate", hosts, self.host, here, link_to);
      const GroupView listed = group_of("gate", devices, self.host, 0, false, link_to);
      EXPECT_EQ(counted.size, listed.size);
      EXPECT_EQ(counted.self, listed.self);
      EXPECT_EQ(areas_of(counted), areas_of(listed));
      EXPECT_EQ(hosts_written(counted), hosts_written(listed));
      ASSERT_EQ(counted.hosts.size(), listed.hosts.size());
      for (size_t h = 0; h < hosts.size(); ++h) {
        EXPECT_EQ(counted.hosts[h].count, listed.hosts[h].count);
        EXPECT_EQ(counted.hosts[h].link, listed.hosts[h].link);
        EXPECT_EQ(counted.hosts[h].members[0].rank, listed.hosts[h].members[0].rank);
        EXPECT_EQ(counted.hosts[h].members[0].device, listed.hosts[h].members[0].device);
      }
      ASSERT_EQ(counted.here().size(), listed.here().size());
      for (uint32_t m = 0; m < self.members; ++m) {
        EXPECT_EQ(counted.here()[m].rank, listed.here()[m].rank);
        EXPECT_EQ(counted.here()[m].device, listed.here()[m].device);
        EXPECT_EQ(private_bytes(counted, m), private_bytes(listed, m));
      }
    }
  }
}

}  // namespace
}  // namespace gangway::group_links_test
