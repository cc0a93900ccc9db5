// The conformance suite between simulated hosts: a fiber for each member on one reactor, in an
// order and with delays drawn from a seed, and links that are calls (executor/links/sim_link.h).
#include <deque>
#include <map>
#include <vector>

#include "executor/links/sim_link.h"
#include "runtime/fibers/reactor.h"
#include "runtime/fibers/wait_queue.h"
#include "tests/conformance/collective_suite.h"
#include "tests/conformance/group_harness.h"
#include "tests/conformance/group_members.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// The bell of a member's fiber, which waits until it was rung since it last looked.
class FiberBell {
 public:
  FiberBell() : bell_{.function = std::make_shared<std::function<void()>>([this] { ring(); })} {}
  FiberBell(const FiberBell&) = delete;
  FiberBell& operator=(const FiberBell&) = delete;

  const Bell& bell() const { return bell_; }
  void wait() {
    while (!rung_) waiting_.wait("for a ring");
    rung_ = false;
  }

 private:
  void ring() {
    rung_ = true;
    waiting_.wake_one();
  }

  bool rung_ = false;
  WaitQueue waiting_;
  Bell bell_;
};

// Hosts of one simulation, with a bell for each device.
class SimHosts {
 public:
  std::unique_ptr<HostLink> make(uint32_t devices) {
    std::vector<FiberBell*> own;
    std::vector<Bell> bells;
    for (uint32_t d = 0; d < devices; ++d) {
      own.push_back(&bells_.emplace_back());
      bells.push_back(own.back()->bell());
    }
    auto link = std::make_unique<SimLink>(fabric_, bells);
    devices_[link.get()] = own;
    return link;
  }
  FiberBell& of(const HostLink& link, uint32_t device) { return *devices_.at(&link)[device]; }

 private:
  const std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>(Reactor::current());
  std::deque<FiberBell> bells_;
  std::map<const HostLink*, std::vector<FiberBell*>> devices_;
};

void finish(Collective& collective, FiberBell& bell, Rng& rng) {
  while (true) {
    if (rng.below(8) == 0) {
      const int64_t later =
          Reactor::current().clock().now_ns() + 1 + static_cast<int64_t>(rng.below(5'000));
      WaitQueue().wait_until_ns("as a slow member", later);
    }
    if (collective.advance() == Progress::kDone) return;
    bell.wait();
  }
}

bool run_simulated(const std::vector<uint32_t>& host_of, int64_t bytes_max,
                   const MemberBody& body) {
  const uint64_t seed = gangway::tests::test_seed();
  const auto reactor = Reactor::make_simulated({.seed = seed});
  return reactor->run([&] {
    SimHosts hosts;
    std::vector<FiberBell*> bells;
    GroupHarness group({.host_of = host_of,
                        .bytes_max = bytes_max,
                        .kinds = CollectiveKinds::all(),
                        .bell_of =
                            [&](HostLink& link, uint32_t rank, uint32_t device) {
                              bells.resize(host_of.size());
                              bells[rank] = &hosts.of(link, device);
                              return bells[rank]->bell();
                            }},
                       [&](uint32_t devices) { return hosts.make(devices); });
    bool good = true;
    std::vector<Fiber> fibers;
    for (uint32_t r = 0; r < host_of.size(); ++r) {
      fibers.push_back(reactor->spawn("rank", [&, r] {
        Rng rng(seed, r);
        CollectiveMember member =
            member_of(group.member(r), [&, r] { finish(group.member(r), *bells[r], rng); });
        if (!body(member)) good = false;
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
    return good;
  });
}

CollectiveMaker maker(std::string name, uint32_t on_a_host) {
  return {.name = std::move(name),
          .run =
              [on_a_host](uint32_t size, int64_t bytes_max, const MemberBody& body) {
                std::vector<uint32_t> hosts;
                for (uint32_t r = 0; r < size; ++r) hosts.push_back(r / on_a_host);
                return run_simulated(hosts, bytes_max, body);
              },
          .rounds = 100};
}

INSTANTIATE_TEST_SUITE_P(Simulated, CollectiveSuite,
                         ::testing::Values(maker("one_host", 64), maker("hosts_of_two", 2),
                                           maker("a_member_a_host", 1)),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
