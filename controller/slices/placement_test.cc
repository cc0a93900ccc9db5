#include "controller/slices/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Offers hosts whose devices have given numbers of slices, in one island or in several.
class PlacementTest : public ::testing::Test {
 protected:
  void host(std::vector<int> shares, const std::string& island = "main") {
    OfferedHost& host = hosts_.emplace_back();
    host.id = HostId(static_cast<uint32_t>(hosts_.size()));
    host.island = island;
    host.devices = static_cast<uint32_t>(shares.size());
    for (uint32_t d = 0; d < shares.size(); ++d) host.offered.push_back({d, shares[d]});
  }
  // The number of devices that are placed on each host.
  std::vector<int> counts(const PlacementRequest& request) const {
    std::vector<int> counts(hosts_.size());
    std::vector<DeviceRef> placed = best_fit_placement()->place(hosts_, request);
    if (placed.empty()) return {};
    for (const DeviceRef& device : placed) ++counts[device.host.value - 1];
    std::ranges::sort(placed);
    EXPECT_EQ(std::ranges::adjacent_find(placed), placed.end()) << "a device is there twice";
    return counts;
  }

  std::vector<OfferedHost> hosts_;
};

TEST_F(PlacementTest, AnUnusedHostIsSplitOnlyWhereNoSplitHostWillDo) {
  host({0, 0, 0, 0});
  host({1, 0, 0, 0});
  host({1, 1, 1, 0});
  EXPECT_THAT(counts({.devices = 1}), ElementsAre(0, 0, 1));
  EXPECT_THAT(counts({.devices = 2}), ElementsAre(0, 2, 0));
  EXPECT_THAT(counts({.devices = 4}), ElementsAre(4, 0, 0));
  EXPECT_THAT(counts({.devices = 5}), ElementsAre(4, 0, 1));
  EXPECT_THAT(counts({.devices = 13}), IsEmpty());
}

TEST_F(PlacementTest, DevicesThatFewerSlicesLieOnGoBeforeHostsThatFit) {
  host({1, 1, 1, 1});
  host({0, 0});
  host({0, 2});
  EXPECT_THAT(counts({.devices = 3}), ElementsAre(0, 2, 1));
  EXPECT_THAT(counts({.devices = 4}), ElementsAre(1, 2, 1));
}

TEST_F(PlacementTest, NeighboursAlongTheInnermostAxesLieOnOneHostWherePossible) {
  host({0, 0, 0});
  host({0, 0, 0});
  host({0, 0, 0});
  EXPECT_THAT(counts({.devices = 6}), ElementsAre(3, 3, 0));
  EXPECT_THAT(counts({.devices = 6, .groups = {2}}), ElementsAre(2, 2, 2));
  // Groups of 4 do not fit, groups of 2 do; 8 devices in groups of 2 do not.
  EXPECT_THAT(counts({.devices = 4, .groups = {4, 2}}), ElementsAre(2, 2, 0));
  EXPECT_THAT(counts({.devices = 8, .groups = {4, 2}}), ElementsAre(3, 3, 2));
}

TEST_F(PlacementTest, UnusedDevicesGoBeforeGroupsOnOneHost) {
  host({0, 0, 1, 1});
  host({0, 0, 1, 1});
  EXPECT_THAT(counts({.devices = 4, .groups = {4}}), ElementsAre(2, 2));
}

TEST_F(PlacementTest, ConstraintsHold) {
  host({0, 0, 0, 0}, "east");
  host({0, 0, 0, 0}, "east");
  host({0, 0}, "west");
  EXPECT_THAT(counts({.devices = 4, .per_host_max = 2}), ElementsAre(2, 2, 0));
  EXPECT_THAT(counts({.devices = 2, .per_host_max = 1}), ElementsAre(1, 1, 0));
  EXPECT_THAT(counts({.devices = 3, .per_host_max = 1}), ElementsAre(1, 1, 1));
  EXPECT_THAT(counts({.devices = 3, .one_island = true, .per_host_max = 1}), IsEmpty());
  EXPECT_THAT(counts({.devices = 9}), ElementsAre(4, 4, 1));
  EXPECT_THAT(counts({.devices = 9, .one_island = true}), IsEmpty());
}

// Takes the first host with enough unused devices, or else the first unused devices of all hosts.
std::vector<DeviceRef> first_fit(const std::vector<OfferedHost>& hosts, uint32_t devices) {
  std::vector<DeviceRef> anywhere;
  for (const OfferedHost& host : hosts) {
    std::vector<DeviceRef> here;
    for (const OfferedDevice& device : host.offered) {
      if (device.shares == 0 && here.size() < devices) here.push_back({host.id, device.device});
    }
    if (here.size() == devices) return here;
    anywhere.insert(anywhere.end(), here.begin(), here.end());
  }
  anywhere.resize(devices);
  return anywhere;
}

// A cluster whose slices share no devices, and what a policy leaves of it.
struct Cluster {
  std::vector<OfferedHost> hosts;
  std::map<int, std::vector<DeviceRef>> slices;

  void give(int slice, const std::vector<DeviceRef>& devices) {
    for (const DeviceRef& at : devices) ++hosts[at.host.value].offered[at.device].shares;
    slices[slice] = devices;
  }
  void take_back(int slice) {
    for (const DeviceRef& at : slices[slice]) --hosts[at.host.value].offered[at.device].shares;
    slices.erase(slice);
  }
  uint32_t largest_free_block() const {
    uint32_t largest = 0;
    for (const OfferedHost& host : hosts) {
      uint32_t free = 0;
      for (const OfferedDevice& device : host.offered) free += device.shares == 0 ? 1 : 0;
      largest = std::max(largest, free);
    }
    return largest;
  }
  uint32_t hosts_of(int slice) const {
    std::map<HostId, int> on;
    for (const DeviceRef& at : slices.at(slice)) ++on[at.host];
    return static_cast<uint32_t>(on.size());
  }
};

TEST_F(PlacementTest, BestFitLeavesLargerFreeBlocksThanFirstFitAfterManySlices) {
  Rng rng(tests::test_seed(), 0xF4A6);
  const auto best_fit = best_fit_placement();
  std::array<Cluster, 2> clusters;  // For best fit and for first fit, with the same requests.
  for (Cluster& cluster : clusters) {
    for (uint32_t h = 0; h < 8; ++h) {
      OfferedHost& host =
          cluster.hosts.emplace_back(OfferedHost{.id = HostId(h), .island = "main", .devices = 8});
      for (uint32_t d = 0; d < 8; ++d) host.offered.push_back({d, 0});
    }
  }
  std::array<uint64_t, 2> largest{}, spans{};
  int next = 0;
  for (int step = 0; step < 4000; ++step) {
    size_t used = 0;
    for (const auto& [id, devices] : clusters[0].slices) used += devices.size();
    const auto wanted = uint32_t{1} << rng.below(4);
    if (used + wanted > 58) {  // Nearly all devices are in use: some slice goes.
      auto victim = clusters[0].slices.begin();
      std::advance(victim, static_cast<int64_t>(rng.below(clusters[0].slices.size())));
      const int id = victim->first;
      for (Cluster& cluster : clusters) cluster.take_back(id);
      continue;
    }
    clusters[0].give(next, best_fit->place(clusters[0].hosts, {.devices = wanted}));
    clusters[1].give(next, first_fit(clusters[1].hosts, wanted));
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(clusters[i].slices[next].size(), wanted);
      largest[i] += clusters[i].largest_free_block();
      spans[i] += clusters[i].hosts_of(next);
    }
    ++next;
  }
  EXPECT_GT(largest[0] * 20, largest[1] * 21) << "the largest free block, summed over slices";
  const uint64_t slices = static_cast<uint64_t>(next);
  EXPECT_LT((spans[0] - slices) * 4, (spans[1] - slices) * 3) << "hosts beyond a slice's first";
}

}  // namespace
}  // namespace gangway
