#include "executor/links/host_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "executor/links/shared_link.h"
#include "executor/links/sim_link.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "runtime/fibers/reactor.h"
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
// In the area "inbox" a payload lies behind its flag.
constexpr uint64_t kPayloadAt = 8;
constexpr int64_t kPayloadBytes = 1000 - 8;

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
  EXPECT_EQ(own->word(inbox).load(), 0u);
  const std::span<std::byte> range = peer->range(inbox);
  EXPECT_LE(range.data(), peer->at(inbox));
  EXPECT_GE(range.data() + range.size(), peer->at(inbox) + 1000);
  std::memset(peer->at(inbox + kPayloadAt), 7, kPayloadBytes);
  peer->put({inbox + kPayloadAt, kPayloadBytes}, inbox, 41);
  EXPECT_EQ(own->word(inbox).load(), 41u);
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
  const uint64_t inbox = late->place("inbox", 1000);
  std::memset(late->at(inbox + kPayloadAt), 7, kPayloadBytes);
  late->put({inbox + kPayloadAt, kPayloadBytes}, inbox, 41);
  EXPECT_EQ(next->word(next->place("inbox", 1000)).load(), 0u);
  EXPECT_EQ(next->at(next->place("inbox", 1000))[kPayloadAt], std::byte{0});
}

TEST(SimFabricTest, MemoryIsOfferedOnce) {
  SimFabric fabric;
  const auto memory = std::make_shared<SimMemory>(64, std::vector<Bell>{}),
             other = std::make_shared<SimMemory>(64, std::vector<Bell>{});
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

// Two hosts over a network that delivers in any order, the second of which writes two areas.
class AnyOrderTest : public ::testing::Test {
 protected:
  AnyOrderTest() {
    AreaList list;
    for (const char* name : {"a", "b"}) list.add(name, 64);
    own_ = here_.offer(list);
    peer_ = there_.open(own_->offer());
    a_ = peer_->place("a", 64);
    b_ = peer_->place("b", 64);
  }
  uint64_t word(uint64_t offset) const { return own_->word(offset).load(); }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = tests::test_seed()});
  std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>(*reactor_);
  // The words of both areas, each time that a device of the first host is rung.
  std::vector<std::pair<uint64_t, uint64_t>> seen_;
  SimLink here_{fabric_,
                {{nullptr, std::make_shared<const std::function<void()>>(
                               [this] { seen_.emplace_back(word(a_), word(b_)); })}},
                "here"};
  SimLink there_{fabric_, {}, "there"};
  std::shared_ptr<OwnMemory> own_;
  std::shared_ptr<PeerMemory> peer_;
  uint64_t a_ = 0, b_ = 0;
};

TEST_F(AnyOrderTest, WritesToOneAreaArriveInOrderAndThoseToTwoInAnyOrder) {
  bool a_first = false, b_first = false;
  for (uint64_t round = 1; round <= 40; ++round) {
    for (const uint64_t value : {2 * round, 2 * round + 1}) {
      peer_->signal(a_, value);
      peer_->signal(b_, value);
    }
    EXPECT_LT(word(a_), 2 * round) << "nothing arrives while its writer goes on";
    peer_->ring(0);
    seen_.clear();
    reactor_->run_ready();
    EXPECT_EQ(seen_.back(), std::pair(2 * round + 1, 2 * round + 1));
    for (size_t i = 1; i < seen_.size(); ++i) {
      EXPECT_GE(seen_[i].first, seen_[i - 1].first);
      EXPECT_GE(seen_[i].second, seen_[i - 1].second);
    }
    a_first = a_first || seen_[0].first > seen_[0].second;
    b_first = b_first || seen_[0].second > seen_[0].first;
  }
  EXPECT_TRUE(a_first && b_first);
}

TEST_F(AnyOrderTest, AFlagBringsThePayloadThatItsWriterHadPutThere) {
  std::memset(peer_->at(a_ + 8), 7, 56);
  peer_->put({a_ + 8, 56}, a_, 1);
  peer_->ring(0);
  EXPECT_TRUE(seen_.empty()) << "a ring comes behind what was put before";
  EXPECT_EQ(own_->at(a_)[63], std::byte{0});
  peer_ = nullptr;  // A write goes on without its writer.
  reactor_->run_ready();
  EXPECT_EQ(word(a_), 1u);
  EXPECT_EQ(own_->at(a_)[63], std::byte{7});
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(AnyOrderTest, ABrokenLinkIsReportedOnceAndNothingArrivesOverItAnyMore) {
  std::vector<std::string> reasons;
  peer_->on_broken([&](const std::string& why) { reasons.push_back(why); });
  fabric_->break_link("here", "there");
  peer_->signal(a_, 2);
  EXPECT_TRUE(reasons.empty()) << "only the other way is broken";
  fabric_->break_link("there", "here");
  for (const uint64_t value : {3, 4}) peer_->signal(a_, value);
  peer_->ring(0);
  reactor_->run_ready();
  EXPECT_EQ(word(a_), 2u) << "a write that was under way arrives";
  EXPECT_EQ(reasons.size(), 1u);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(AnyOrderTest, ABrokenLinkIsNotReportedOnceTheMemoryIsGivenUp) {
  int reports = 0;
  peer_->on_broken([&](const std::string&) { ++reports; });
  peer_->signal(a_, 1);
  peer_->ring(0);
  fabric_->break_link("there", "here");
  peer_ = nullptr;
  reactor_->run_ready();
  EXPECT_EQ(reports, 0);
  EXPECT_EQ(word(a_), 1u) << "its writes under way arrive";
}

TEST_F(AnyOrderTest, AHostWritesOnlyItsOwnAreas) {
  SimLink third(fabric_, {});
  const auto other = third.open(own_->offer());
  std::string text;
  EXPECT_EQ(refusal([&] { other->place("a", 64); }, &text), ErrorKind::kBug);
  EXPECT_THAT(text, HasSubstr("area \"a\" has two writers"));
  EXPECT_EQ(refusal([&] { other->signal(a_, 1); }, &text), ErrorKind::kBug);
  EXPECT_THAT(text, HasSubstr("beyond the areas that this host writes"));
}

}  // namespace
}  // namespace gangway::host_link_test
