#include "executor/links/host_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "executor/links/shared_link.h"
#include "executor/links/sim_link.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway::host_link_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kDevices = 3;

// Two hosts that reach one another, and a count of how often a device of the first was rung.
struct Kind {
  std::string name;
  struct Hosts {
    std::unique_ptr<HostLink> here, there;
    std::function<uint32_t(uint32_t device)> rings_here;
  };
  std::function<Hosts()> make;
};

Kind::Hosts shared_hosts() {
  auto here = std::make_unique<SharedLink>(kDevices);
  auto rings = [link = here.get()](uint32_t device) {
    return link->bell(device).doorbell->ticket();
  };
  return {std::move(here), std::make_unique<SharedLink>(1), std::move(rings)};
}

Kind::Hosts sim_hosts() {
  const auto fabric = std::make_shared<SimFabric>();
  const auto rings = std::make_shared<std::vector<uint32_t>>(kDevices, 0);
  std::vector<Bell> bells;
  for (uint32_t d = 0; d < kDevices; ++d)
    bells.push_back(
        {nullptr, std::make_shared<const std::function<void()>>([rings, d] { ++(*rings)[d]; })});
  return {std::make_unique<SimLink>(fabric, bells),
          std::make_unique<SimLink>(fabric, std::vector<Bell>{}),
          [rings](uint32_t device) { return (*rings)[device]; }};
}

class HostLinkTest : public ::testing::TestWithParam<Kind> {
 protected:
  Kind::Hosts hosts = GetParam().make();
};

AreaList areas() {
  AreaList list;
  list.add("flag", 8);
  list.add("inbox", 1000);
  return list;
}

ErrorKind refusal(const std::function<void()>& act, std::string* text = nullptr) {
  try {
    act();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.message();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was refused";
  return ErrorKind::kBug;
}

TEST_P(HostLinkTest, APutArrivesWithItsFlagAndARingReachesItsDevice) {
  const auto own = hosts.here->offer(areas());
  const auto peer = hosts.there->open(own->offer());
  const uint64_t flag = peer->place("flag", 8), inbox = peer->place("inbox", 1000);
  EXPECT_EQ(own->place("flag", 8), flag);
  EXPECT_EQ(own->word(flag).load(), 0u);
  std::memset(peer->at(inbox), 7, 1000);
  peer->put({inbox, 1000}, flag, 41);
  EXPECT_EQ(own->word(flag).load(), 41u);
  EXPECT_EQ(own->at(inbox)[999], std::byte{7});
  peer->signal(flag, 42);
  EXPECT_EQ(own->word(flag).load(), 42u);
  ASSERT_EQ(peer->devices(), kDevices);
  peer->ring(2);
  EXPECT_EQ(hosts.rings_here(2), 1u);
  EXPECT_EQ(hosts.rings_here(1), 0u);
}

TEST_P(HostLinkTest, AHostWritesToItselfAsToAPeer) {
  const auto own = hosts.here->offer(areas());
  own->signal(own->place("flag", 8), 5);
  EXPECT_EQ(own->word(own->place("flag", 8)).load(), 5u);
  own->ring(0);
  EXPECT_EQ(hosts.rings_here(0), 1u);
}

TEST_P(HostLinkTest, APeerMayStillWriteWhenTheHostHasGone) {
  auto own = hosts.here->offer(areas());
  const auto peer = hosts.there->open(own->offer());
  const uint64_t flag = peer->place("flag", 8);
  own = nullptr;
  hosts.here = nullptr;
  peer->signal(flag, 1);
  peer->ring(0);
}

TEST_P(HostLinkTest, EachOfferIsNewMemoryThatLateWritesToEarlierOnesDoNotReach) {
  auto own = hosts.here->offer(areas());
  const std::vector<std::byte> offer = own->offer();
  const auto late = hosts.there->open(offer);
  own = nullptr;
  const auto next = hosts.here->offer(areas());
  EXPECT_NE(next->offer(), offer);
  const uint64_t flag = late->place("flag", 8), inbox = late->place("inbox", 1000);
  std::memset(late->at(inbox), 7, 1000);
  late->put({inbox, 1000}, flag, 41);
  EXPECT_EQ(next->word(next->place("flag", 8)).load(), 0u);
  EXPECT_EQ(next->at(next->place("inbox", 1000))[0], std::byte{0});
}

TEST(SimFabricTest, MemoryIsOfferedOnce) {
  SimFabric fabric;
  const auto memory = std::make_shared<SimMemory>(), other = std::make_shared<SimMemory>();
  fabric.add(memory);
  fabric.add(other);
  std::string text;
  EXPECT_EQ(refusal([&] { fabric.add(memory); }, &text), ErrorKind::kBug);
  EXPECT_THAT(text, HasSubstr("this memory is offer 1 already"));
}

TEST_P(HostLinkTest, AnAreaThatAPeerLacksOrHasTooSmallIsRefusedByName) {
  const auto peer = hosts.there->open(hosts.here->offer(areas())->offer());
  std::string text;
  EXPECT_EQ(refusal([&] { peer->place("gate", 8); }, &text), ErrorKind::kUnavailable);
  EXPECT_THAT(text, HasSubstr("has no area \"gate\" of 8 bytes"));
  EXPECT_EQ(refusal([&] { peer->place("inbox", 1001); }, &text), ErrorKind::kUnavailable);
  EXPECT_THAT(text, HasSubstr("has no area \"inbox\" of 1001 bytes"));
}

TEST_P(HostLinkTest, BytesThatAreNoOfferAreRefused) {
  const auto own = hosts.here->offer(areas());
  const std::vector<std::byte> offer = own->offer();
  for (size_t size = 0; size < offer.size(); ++size) {
    EXPECT_EQ(refusal([&] { hosts.there->open({offer.data(), size}); }), ErrorKind::kInvalid);
  }
  Rng rng(gangway::tests::test_seed(), 1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> bytes = offer;
    for (uint64_t changes = 1 + rng.below(8); changes > 0; --changes)
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    if (bytes == offer) continue;
    try {
      hosts.there->open(bytes);  // The changed bytes may have no effect, as padding.
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kBug) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostLinkTest,
                         ::testing::Values(Kind{"Shared", shared_hosts}, Kind{"Sim", sim_hosts}),
                         [](const auto& i) { return i.param.name; });

TEST(SimLinkTest, AnOfferThatItsHostHasWithdrawnCannotBeOpened) {
  const auto fabric = std::make_shared<SimFabric>();
  SimLink here(fabric, {}), there(fabric, {});
  auto own = here.offer(areas());
  const std::vector<std::byte> offer = own->offer();
  own = nullptr;
  std::string text;
  EXPECT_EQ(refusal([&] { there.open(offer); }, &text), ErrorKind::kUnavailable);
  EXPECT_THAT(text, HasSubstr("not in this simulation"));
}

}  // namespace
}  // namespace gangway::host_link_test
