#include "ir/plan/plan_members.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "ir/types/axis_list.h"
#include "tests/support/seed.h"

namespace gangway::plan_members_test {
namespace {

// Every member of a slice, listed one after another.
std::vector<Member> listed(const PlanSlice& slice) {
  std::vector<Member> members;
  for (const PlanRange& range : slice.ranges) {
    for (uint32_t device = 0; device < range.count; ++device) {
      for (uint32_t rank = 0; rank < slice.ranks_per_device; ++rank)
        members.push_back({range.host, range.first + device, rank});
    }
  }
  return members;
}

std::set<Member> listed(const Plan& plan) {
  std::set<Member> members;
  for (const PlanSlice& slice : plan.slices) {
    for (const Member& member : listed(slice)) members.insert(member);
  }
  return members;
}

constexpr uint32_t kHosts = 4;

// Slices over some of the devices of four hosts, which they may share, with 1 to 3 ranks on each.
Plan random_plan(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  Plan plan;
  for (uint32_t s = 0; s < 1 + below(3); ++s) {
    PlanSlice slice{.mesh = {}, .ranges = {}, .ranks_per_device = 1 + below(3)};
    for (uint32_t next[kHosts] = {}, r = 0; r < 1 + below(5); ++r) {
      const uint32_t host = below(kHosts), count = 1 + below(3);
      slice.ranges.push_back({host, next[host] + below(2), count});
      next[host] = slice.ranges.back().first + count;
    }
    plan.slices.push_back(std::move(slice));
  }
  return plan;
}

TEST(PlanMembers, AreFoundByArithmeticAsAListOfThemHasThem) {
  std::mt19937_64 random(tests::test_seed());
  for (int round = 0; round < 300; ++round) {
    const Plan plan = random_plan(random);
    for (const PlanSlice& slice : plan.slices) {
      const std::vector<Member> expected = listed(slice);
      const SliceMembers members(slice);
      for (uint32_t device = 0; device < expected.size(); ++device)
        EXPECT_EQ(members.at(device), expected[device]);
    }
    std::map<uint32_t, std::vector<Member>> by_host;
    for (const Member& member : listed(plan)) by_host[member.host].push_back(member);
    std::vector<MembersOfHost> counts;
    for (const auto& [host, members] : by_host) {
      std::set<uint32_t> devices;
      for (const Member& member : members) devices.insert(member.device);
      counts.push_back({host, static_cast<uint32_t>(devices.size()),
                        static_cast<uint32_t>(members.size()), members[0].device});
    }
    EXPECT_EQ(members_by_host(plan), counts);
    for (uint32_t host = 0; host < kHosts; ++host) EXPECT_EQ(members_on(plan, host), by_host[host]);
  }
}

TEST(PlanMembers, RowsAreTheGroupsThatHaveOneOfTheDevices) {
  std::mt19937_64 random(tests::test_seed());
  const Mesh mesh{{{"a", 3}, {"b", 2}, {"c", 4}}};
  for (const char* axes : {"a", "b", "c", "c,a", "a,b", "a,b,c"}) {
    const auto groups = members_of_groups(mesh, axes_of(mesh, axes));
    std::vector<uint32_t> devices;
    for (uint32_t i = 0; i < 5; ++i) devices.push_back(static_cast<uint32_t>(random() % 24));
    std::vector<GroupRow> expected;
    for (uint32_t number = 0; number < groups.size(); ++number) {
      const auto& group = groups[number];
      if (std::ranges::any_of(devices,
                              [&](uint32_t d) { return std::ranges::count(group, d) > 0; }))
        expected.push_back({number, {group.begin(), group.end()}});
    }
    EXPECT_EQ(rows_of(mesh, axes, devices), expected) << axes;
  }
}

TEST(PlanMembers, DevicesOfAMachineAreThoseOfAllItsHosts) {
  Plan plan;
  plan.hosts = {"a", "b", "c"};
  plan.slices = {{Mesh{{{"data", 3}}}, {{0, 0, 2}, {1, 0, 1}}},
                 {Mesh{{{"data", 5}}}, {{1, 0, 1}, {2, 4, 4}}, 1}};
  for (uint32_t host = 0; host < 3; ++host)
    EXPECT_EQ(devices_on_machine_of(plan, host), 7u) << "all hosts are on one machine";
  plan.machines = {4, 9, 4};
  EXPECT_EQ(devices_on_machine_of(plan, 0), 6u);
  EXPECT_EQ(devices_on_machine_of(plan, 1), 1u);
}

// One host of 1250, with eight of 10,000 devices: along "model" these meet one another; along
// "data" each meets the devices of its own row, and together they meet all.
TEST(PlanMembers, AHostOfALargeMeshListsOnlyItsOwnRows) {
  constexpr uint32_t kMany = 1250, kDevices = 8;
  Plan plan;
  PlanSlice& slice = plan.slices.emplace_back();
  slice.mesh = {{{"data", kMany}, {"model", kDevices}}};
  for (uint32_t host = 0; host < kMany; ++host) slice.ranges.push_back({host, 0, kDevices});
  std::vector<uint32_t> here;
  for (uint32_t device = 0; device < kDevices; ++device) here.push_back(700 * kDevices + device);
  const auto listed_members = [&](const std::string& axes) {
    size_t members = 0;
    for (const GroupRow& row : rows_of(slice.mesh, axes, here)) members += row.members.size();
    return members;
  };
  EXPECT_EQ(listed_members("model"), kDevices);
  EXPECT_EQ(listed_members("data"), kMany * kDevices);
  EXPECT_EQ(SliceMembers(slice).at(700 * kDevices + 3), (Member{700, 3, 0}));
  EXPECT_EQ(members_by_host(plan).size(), kMany);
}

}  // namespace
}  // namespace gangway::plan_members_test
