#include "ir/plan/axis_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/plan/plan_members.h"
#include "ir/types/axis_list.h"
#include "tests/support/seed.h"

namespace gangway::axis_links_test {
namespace {

constexpr LinkClass kHost = LinkClass::kHost, kIsland = LinkClass::kIsland,
                    kBetween = LinkClass::kBetweenIslands;

using Links = std::vector<LinkClass>;

const Mesh kMesh{{{"a", 2}, {"b", 2}}};

// Hosts h0 and h1 lie in one island, h2 and h3 in another.
Plan plan_on_islands() {
  Plan plan;
  plan.hosts = {"h0", "h1", "h2", "h3"};
  plan.islands = {"east", "east", "west", "west"};
  return plan;
}

Links links_of(const Mesh& mesh, const std::vector<PlanRange>& ranges) {
  return axis_links(plan_on_islands(), {mesh, ranges});
}

TEST(AxisLinks, AreThoseOfTheFarthestNeighboursAlongEachAxis) {
  EXPECT_EQ(links_of(kMesh, {{0, 0, 4}}), (Links{kHost, kHost}));
  EXPECT_EQ(links_of(kMesh, {{0, 0, 2}, {1, 0, 2}}), (Links{kIsland, kHost}));
  EXPECT_EQ(links_of(kMesh, {{0, 0, 2}, {2, 0, 2}}), (Links{kBetween, kHost}));
  EXPECT_EQ(links_of(kMesh, {{0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}}), (Links{kHost, kIsland}))
      << "hosts in turn";
  EXPECT_EQ(links_of(kMesh, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}}),
            (Links{kBetween, kIsland}));
  EXPECT_EQ(links_of(kMesh, {{0, 0, 3}, {1, 0, 1}}), (Links{kIsland, kIsland}));
  EXPECT_EQ(links_of(Mesh{}, {{0, 0, 1}}), Links{});
  EXPECT_EQ(links_of(Mesh{{{"a", 1}, {"b", 2}}}, {{0, 0, 1}, {1, 0, 1}}), (Links{kHost, kIsland}));
}

TEST(AxisLinks, RanksOfOneDeviceAreLinkedAsDevicesOfOneHost) {
  EXPECT_EQ(axis_links(plan_on_islands(), {kMesh, {{0, 0, 1}, {1, 0, 1}}, 2}),
            (Links{kIsland, kHost}));
  EXPECT_EQ(axis_links(plan_on_islands(), {kMesh, {{0, 0, 1}}, 4}), (Links{kHost, kHost}));
}

// Compares with the link of every two devices that differ in one coordinate.
TEST(AxisLinks, AreWhatAWalkOverAllDevicesFinds) {
  std::mt19937_64 random(tests::test_seed());
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  const Plan plan = plan_on_islands();
  for (int round = 0; round < 300; ++round) {
    PlanSlice slice{.mesh = {{{"a", 1 + below(3)}, {"b", 1 + below(4)}, {"c", 1 + below(3)}}},
                    .ranges = {},
                    .ranks_per_device = 1};
    const int64_t devices = slice.mesh.devices();
    if (devices % 2 == 0 && below(2) == 0) slice.ranks_per_device = 2;
    auto left = static_cast<uint32_t>(devices) / slice.ranks_per_device;
    for (uint32_t first = 0; left > 0;) {
      const uint32_t count = 1 + below(left);
      slice.ranges.push_back({below(4), first, count});
      first += count;
      left -= count;
    }
    const SliceMembers members(slice);
    Links expected(3, kHost);
    for (size_t axis = 0; axis < 3; ++axis) {
      for (const auto& group : members_of_groups(slice.mesh, {static_cast<int>(axis)})) {
        for (const int64_t a : group) {
          for (const int64_t b : group)
            expected[axis] =
                std::max(expected[axis], link_class(plan, members.at(static_cast<uint32_t>(a)).host,
                                                    members.at(static_cast<uint32_t>(b)).host));
        }
      }
    }
    EXPECT_EQ(axis_links(plan, slice), expected) << to_string(slice.mesh);
  }
}

}  // namespace
}  // namespace gangway::axis_links_test
