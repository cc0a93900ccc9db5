// The order that devices of hosts logged shows when it was broken.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>

#include "ir/build/ops.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr PlanId kMaker{1}, kTaker{2};

std::shared_ptr<const Plan> one_call(const std::string& name) {
  TestPlan plan(name, 1, 1);
  Builder b("next", plan.mesh());
  b.result("y", b.parameter("x", f32()) + 1.0);
  const uint32_t x = plan.input("x", f32()), y = plan.output("y", f32());
  plan.call("next", plan.function(b.build()), {x}, {y});
  return plan.share();
}

// One run takes an array that another one fills; the arguments are the tickets of both.
std::unique_ptr<TestHosts> pass_on(Reactor& reactor, uint64_t maker_ticket, uint64_t taker_ticket) {
  auto t = std::make_unique<TestHosts>(reactor, 1, 1, DeviceKind::kSim);
  t->install(kMaker, one_call("maker"));
  t->install(kTaker, one_call("taker"), {2});
  Host& host = *t->hosts[0];
  host.prepare({0,
                {.plan = kMaker,
                 .run = RunId(1),
                 .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
                 .outputs = {ArrayId(11)}}});
  host.prepare({0,
                {.plan = kTaker,
                 .run = RunId(2),
                 .arguments = {{.input = 0, .array = ArrayId(11)}},
                 .outputs = {ArrayId(12)}}});
  std::vector<GrantRange> ranges = {
      {.run = RunId(1), .slice = 0, .count = 1, .ticket = Ticket(maker_ticket)},
      {.run = RunId(2), .slice = 0, .count = 1, .ticket = Ticket(taker_ticket)}};
  if (maker_ticket > taker_ticket) std::swap(ranges[0], ranges[1]);
  host.grant({ranges});
  EXPECT_FALSE(t->wait(RunId(1)).error);
  EXPECT_FALSE(t->wait(RunId(2)).error);
  EXPECT_EQ(t->item<float>(RunId(2), 0), 2.0f);
  return t;
}

TEST(HostOrderTest, ARunThatTakesAnArrayComesBehindTheOneThatFillsIt) {
  const auto reactor = Reactor::make_simulated();
  pass_on(*reactor, 1, 2);
}

TEST(HostOrderTest, ARunThatWaitedForAnArrayOfAHigherTicketIsFound) {
  const auto reactor = Reactor::make_simulated();
  std::unique_ptr<TestHosts> t = pass_on(*reactor, 2, 1);
  EXPECT_NONFATAL_FAILURE(t.reset(), "run 2 node 0 ticket 1 waited for an array of run 1");
}

}  // namespace
}  // namespace gangway
