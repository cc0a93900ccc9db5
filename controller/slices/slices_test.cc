#include "controller/slices/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SlicesTest : public testing::Test {
 protected:
  HostId host(const std::string& island, uint32_t devices) {
    return hosts_.add({.name = "host", .devices = devices, .island = island}, peer_, 0).id;
  }
  std::vector<std::string> islands_of(uint32_t devices) {
    std::vector<std::string> islands;
    for (const DeviceRef& device : slices_.allocate(SessionId(1), {devices}).devices)
      islands.push_back(hosts_.island_of(device.host));
    return islands;
  }

  FakeExecutor peer_;
  HostTable hosts_;
  SliceTable slices_{hosts_};
};

TEST_F(SlicesTest, HostsThatNameNoIslandAreInOneIsland) {
  const HostId a = hosts_.add({.name = "a"}, peer_, 0).id;
  const HostId b = hosts_.add({.name = "b"}, peer_, 0).id;
  EXPECT_EQ(hosts_.link_class(a, a), LinkClass::kHost);
  EXPECT_EQ(hosts_.link_class(a, b), LinkClass::kIsland);
  EXPECT_EQ(hosts_.link_class(a, host("other", 1)), LinkClass::kBetweenIslands);
}

TEST_F(SlicesTest, ASliceLiesInOneIslandWhereOneHasEnoughDevices) {
  host("east", 1);
  host("west", 1);
  host("east", 1);
  host("west", 1);
  // The first two free hosts by number are of different islands.
  EXPECT_THAT(islands_of(1), ElementsAre("east"));
  EXPECT_THAT(islands_of(2), ElementsAre("west", "west"));
  EXPECT_THAT(islands_of(2), ElementsAre("east", "east"));
}

TEST_F(SlicesTest, TheIslandThatJustFitsIsTaken) {
  host("large", 4);
  host("small", 2);
  EXPECT_THAT(islands_of(2), ElementsAre("small", "small"));
  EXPECT_THAT(islands_of(4), ElementsAre("large", "large", "large", "large"));
}

TEST_F(SlicesTest, ASliceThatNoIslandHoldsSpansTheLargestWithNeighboursInOneIsland) {
  host("a", 1);
  host("b", 2);
  host("c", 1);
  host("b", 1);
  EXPECT_THAT(islands_of(4), ElementsAre("a", "b", "b", "b"));
  EXPECT_THROW(slices_.allocate(SessionId(1), {6}), Error);
}

TEST_F(SlicesTest, ASliceLeavesHostsThatCantServeItForOthers) {
  using Elsewhere = SliceTable::Elsewhere;
  const HostId a = host("a", 2), b = host("b", 2);
  const SliceRecord& slice = slices_.allocate(SessionId(1), {2});
  const HostId first = slice.devices.at(0).host, second = first == a ? b : a;
  EXPECT_EQ(slices_.leave_hosts(slice.id, {second}), Elsewhere::kLies);
  EXPECT_EQ(slice.devices.at(0).host, first) << "it does not lie there";
  EXPECT_EQ(slices_.leave_hosts(slice.id, {first}), Elsewhere::kLies);
  ASSERT_EQ(slice.devices.size(), 2u);
  EXPECT_EQ(slice.devices[0].host, second);
  EXPECT_EQ(slice.devices[1].host, second);
  SliceShape alone(2);
  alone.exclusive = true;
  const SliceRecord& other = slices_.allocate(SessionId(2), alone);
  EXPECT_EQ(other.devices.at(0).host, first);
  EXPECT_EQ(slices_.leave_hosts(slice.id, {second}), Elsewhere::kIsHeld);
  EXPECT_TRUE(slice.devices.empty());
  slices_.release(slice.id);
  const SliceRecord& last = slices_.allocate(SessionId(1), {2});
  EXPECT_EQ(slices_.leave_hosts(last.id, {a, b}), Elsewhere::kIsNowhere);
  slices_.release(last.id);
  EXPECT_EQ(slices_.size(), 1u);
}

TEST_F(SlicesTest, ASliceThatOnlyItsOwnClientKeepsFromAnotherHostHasNoOtherPlace) {
  using Elsewhere = SliceTable::Elsewhere;
  host("a", 2);
  host("b", 2);
  SliceShape alone(2);
  alone.exclusive = true;
  for (const bool is_alone : {true, false}) {
    const SliceRecord& held = slices_.allocate(SessionId(1), is_alone ? alone : SliceShape(2));
    const SliceRecord& slice = slices_.allocate(SessionId(1), is_alone ? SliceShape(2) : alone);
    const HostId there = slice.devices.at(0).host;
    ASSERT_NE(held.devices.at(0).host, there);
    EXPECT_EQ(slices_.leave_hosts(slice.id, {there}), Elsewhere::kIsNowhere);
    for (const SliceId id : {held.id, slice.id}) slices_.release(id);
  }
}

TEST_F(SlicesTest, RanksThatShareADeviceTakeItOnce) {
  host("a", 2);
  const SliceRecord& slice = slices_.allocate(SessionId(1), {8, 4});
  EXPECT_EQ(slice.devices.size(), 2u);
  EXPECT_EQ(slice.ranks_per_device, 4u);
  EXPECT_NE(slice.devices[0], slice.devices[1]);
}

TEST_F(SlicesTest, RanksThatDoNotDivideAreRefusedByTheControllerToo) {
  host("a", 8);
  const auto refusal = [&](const SliceShape& shape) -> std::string {
    try {
      slices_.allocate(SessionId(1), shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.message();
    }
    return "allocated";
  };
  EXPECT_THAT(refusal({8, 3}), HasSubstr("8 devices of a slice do not divide"));
  EXPECT_THAT(refusal({8, 0}), HasSubstr("ranks_per_device: expected 1 to 64, got 0"));
  EXPECT_THAT(refusal({0, 1}), HasSubstr("devices, got 0"));
  EXPECT_THAT(refusal({~0u, ~0u}), HasSubstr("devices, got 4294967295"));
  EXPECT_THAT(refusal({18, 2}), HasSubstr("at most 16, got 18 with ranks_per_device = 2"));
  EXPECT_EQ(refusal({16, 2}), "allocated");
}

TEST_F(SlicesTest, ASliceOverSeveralIslandsTakesThoseThatNobodyUses) {
  host("a", 2);
  EXPECT_THAT(islands_of(2), ElementsAre("a", "a"));
  host("b", 2);
  host("c", 2);
  EXPECT_THAT(islands_of(4), ElementsAre("b", "b", "c", "c"));
}

TEST_F(SlicesTest, NeighboursAlongTheInnermostAxesShareAHost) {
  host("a", 3);
  host("a", 5);
  host("a", 2);
  SliceShape shape(8);
  shape.axes = {2, 2, 2};
  const std::vector<DeviceRef> devices = slices_.allocate(SessionId(1), shape).devices;
  ASSERT_EQ(devices.size(), 8u);
  for (size_t i = 0; i < 8; i += 2) EXPECT_EQ(devices[i].host, devices[i + 1].host) << i;
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(devices[i].host, devices[0].host) << "the larger group";
}

TEST_F(SlicesTest, ASliceLargerThanTheClusterIsRefusedWithTheDevicesThatExist) {
  host("east", 2);
  host("west", 3);
  SliceShape shape(4);
  shape.one_island = true;
  try {
    slices_.allocate(SessionId(1), shape);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("expected at most 3, got 4 in one island; host has 2 of "
                                           "0 B in island east, host-2 has 3"));
  }
}

TEST_F(SlicesTest, AHostThatDrainsGetsNoNewSlicesAndKeepsThoseItHas) {
  const HostId a = host("main", 2), b = host("main", 4);
  const SliceId before = slices_.allocate(SessionId(1), {2}).id;
  EXPECT_EQ(slices_.at(before, SessionId(1)).devices[0].host, a);
  hosts_.set_draining("host", true);
  for (int i = 0; i < 3; ++i) {
    for (const DeviceRef& device : slices_.allocate(SessionId(1), {2}).devices)
      EXPECT_EQ(device.host, b) << "where the other would just fit";
  }
  EXPECT_EQ(hosts_.at(a).users, 2);
  slices_.release(before);
  EXPECT_EQ(hosts_.at(a).users, 0);
  hosts_.set_draining("host", false);
  EXPECT_EQ(slices_.allocate(SessionId(1), {2}).devices[0].host, a);
}

TEST_F(SlicesTest, ARefusedRequestNamesTheDrainingHosts) {
  host("main", 2);
  host("main", 2);
  hosts_.set_draining("host-2", true);
  const auto refusal = [&](const SliceShape& shape) {
    return error_of([&] { slices_.allocate(SessionId(1), shape); });
  };
  const Error four = refusal({4});
  EXPECT_EQ(four.kind(), ErrorKind::kOverloaded) << "it is no one's mistake";
  EXPECT_THAT(four.message(), HasSubstr("hosts are draining: expected at most 2 without them, got "
                                        "4; draining hosts: host-2"));
  EXPECT_THAT(four.hint(), HasSubstr("wait_ms"));
  const Error eight = refusal({8});
  EXPECT_EQ(eight.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(eight.message(), HasSubstr("host has 2 of 0 B in island main, host-2 has 2 of 0 B in "
                                         "island main, which is draining"));
  SliceShape alone(2);
  alone.exclusive = true;
  slices_.allocate(SessionId(1), alone);
  EXPECT_THAT(refusal(alone).message(),
              HasSubstr("client 1 holds 2 devices, draining hosts: host-2"));
}

}  // namespace
}  // namespace gangway
