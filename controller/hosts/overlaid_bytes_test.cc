#include "controller/hosts/overlaid_bytes.h"

#include <gtest/gtest.h>

#include "controller/hosts/hosts.h"
#include "tests/support/ready_executor.h"

namespace gangway {
namespace {

TEST(OverlaidBytes, ARegionIsAsLargeAsTheLargestPlanThatIsThere) {
  OverlaidBytes overlaid;
  const DeviceRef here{HostId(1), 0}, there{HostId(1), 1};
  EXPECT_EQ(overlaid.region(here), 0);
  EXPECT_EQ(overlaid.add("a", here, 40), 40);
  EXPECT_EQ(overlaid.add("b", here, 30), 0);
  EXPECT_EQ(overlaid.add("b", here, 50), 10);
  EXPECT_EQ(overlaid.region(here), 50);
  EXPECT_EQ(overlaid.region(there), 0);
  EXPECT_EQ(overlaid.remove("a", here, 40), 0);
  EXPECT_EQ(overlaid.remove("b", here, 50), 20);
  EXPECT_EQ(overlaid.by_owner().at("b"), 30);
  EXPECT_EQ(overlaid.remove("b", here, 30), 30);
  EXPECT_TRUE(overlaid.by_owner().empty());
}

class OverlaidHosts : public testing::Test {
 protected:
  HostId add_host() {
    return hosts_.add({.name = "host-0", .devices = 3, .memory_bytes = 100}, peer_, 0).id;
  }
  int64_t reserved(HostId host, uint32_t device) { return hosts_.at(host).reserved[device]; }

  ReadyExecutor peer_{3};
  HostTable hosts_;
};

TEST_F(OverlaidHosts, ADeviceReservesTheLargestOfOverlaidArenasAndNotTheirSum) {
  const HostId host = add_host();
  const std::vector<Reservation> a{{{host, 0, 2}, 60}}, b{{{host, 1, 2}, 70}};
  ASSERT_FALSE(hosts_.reserve_overlaid("client 1 of ada", a));
  ASSERT_FALSE(hosts_.reserve_overlaid("client 2 of bob", b)) << "in sum they are 130, of 100";
  EXPECT_EQ(reserved(host, 0), 60);
  EXPECT_EQ(reserved(host, 1), 70);
  EXPECT_EQ(reserved(host, 2), 70);
  EXPECT_EQ(hosts_.region_bytes({host, 1}), 70);
  EXPECT_EQ(hosts_.holders({host, 1}), "the region that overlaid programs share holds 70 B");
  EXPECT_EQ(hosts_.held_in_all().at("client 1 of ada"), 120);
  hosts_.release_overlaid("client 2 of bob", b);
  EXPECT_EQ(reserved(host, 1), 60);
  EXPECT_EQ(reserved(host, 2), 0);
  hosts_.release_overlaid("client 1 of ada", a);
  EXPECT_EQ(reserved(host, 0), 0);
  EXPECT_EQ(reserved(host, 1), 0);
  EXPECT_FALSE(hosts_.held_in_all().contains("client 1 of ada"));
}

// Looks for room for several arenas at once, as for the executables of a program.
TEST_F(OverlaidHosts, OverlaidPlansInstalledTogetherFitWhereTheLargestFits) {
  const HostId host = add_host();
  const std::vector<Reservation> own{{{host, 0, 1}, 30}};
  const std::vector<Reservation> two{{{host, 0, 2}, 60}, {{host, 0, 1}, 70}, {{host, 1, 2}, 90}};
  EXPECT_FALSE(hosts_.lacks("client 1 of ada", own, two)) << "in sum they are 160, of 100";
  const std::vector<Reservation> more{{{host, 0, 1}, 31}};
  const std::optional<Shortage> short_of = hosts_.lacks("client 1 of ada", more, two);
  ASSERT_TRUE(short_of);
  EXPECT_EQ(short_of->at, (DeviceRef{host, 0}));
  EXPECT_EQ(reserved(host, 0), 0);
}

TEST_F(OverlaidHosts, AReservationThatDoesNotFitOnOneDeviceIsMadeOnNone) {
  const HostId host = add_host();
  const std::vector<Reservation> own{{{host, 1, 1}, 60}}, wanted{{{host, 0, 3}, 50}};
  ASSERT_FALSE(hosts_.reserve("client 1 of ada", own));
  const auto short_of = hosts_.reserve_overlaid("client 2 of bob", wanted);
  ASSERT_TRUE(short_of.has_value());
  EXPECT_EQ(short_of->at, (DeviceRef{host, 1}));
  for (const uint32_t device : {0u, 2u}) {
    EXPECT_EQ(reserved(host, device), 0);
    EXPECT_EQ(hosts_.region_bytes({host, device}), 0);
  }
}

TEST_F(OverlaidHosts, AQuotaCountsTheWholeArenaOfEachOverlaidProgram) {
  const HostId host = add_host();
  hosts_.limit_memory([&](const std::string& holder, int64_t bytes) -> std::string {
    return hosts_.held_bytes(holder) + bytes > 100 ? "its quota is 100" : "";
  });
  const std::vector<Reservation> a{{{host, 0, 1}, 60}};
  ASSERT_FALSE(hosts_.reserve_overlaid("client 1 of ada", a));
  const auto over = hosts_.reserve_overlaid("client 1 of ada", a);
  ASSERT_TRUE(over.has_value()) << "the device has room for it";
  EXPECT_EQ(over->over_quota, "its quota is 100");
  hosts_.release_overlaid("client 1 of ada", a);
  EXPECT_FALSE(hosts_.reserve_overlaid("client 1 of ada", a));
  hosts_.release_overlaid("client 1 of ada", a);
  EXPECT_EQ(hosts_.held_bytes("client 1 of ada"), 0);
}

}  // namespace
}  // namespace gangway
