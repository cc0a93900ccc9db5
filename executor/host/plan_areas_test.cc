// The offers that hosts make to one another when a plan is installed.
#include "executor/host/plan_areas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway::plan_areas_test {
namespace {

using testing::ElementsAre;

constexpr PlanId kPlan{1};

// Hosts 2i and 2i + 1 sum up their rows, one device each.
std::shared_ptr<const Plan> sums_of_pairs(uint32_t hosts) {
  TestPlan t("pairs", hosts, 1);
  t.plan().slices[0].mesh = {{{"data", hosts / 2}, {"pair", 2}}};
  const Type rows = f32({2, 4});
  Builder b("sum", t.mesh());
  b.result("y", sum(b.parameter("x", rows, {{"pair", shard(0)}}), {0}));
  const uint32_t function = t.function(b.build());
  t.call("sum", function, {t.input("x", rows, {replicate(), shard(0)})}, {t.output("y", f32({4}))});
  return t.share();
}

// Bytes of offers that the controller sends to all hosts together.
size_t offered_bytes(const std::vector<Installed>& installed) {
  size_t bytes = 0;
  for (const Installed& host : installed) {
    for (const uint32_t peer : host.writes_to) bytes += installed[peer].offers[0].bytes.size();
  }
  return bytes;
}

TEST(PlanAreas, AHostWritesToTheOthersOfItsGroupsOnly) {
  size_t bytes_of_four = 0;
  for (const uint32_t hosts : {4u, 16u}) {
    const auto reactor = Reactor::make_simulated();
    TestHosts t(*reactor, hosts, 1, DeviceKind::kSim);
    const std::vector<Installed> installed = t.install(kPlan, sums_of_pairs(hosts));
    for (uint32_t host = 0; host < hosts; ++host)
      EXPECT_THAT(installed[host].writes_to, ElementsAre(host ^ 1));
    if (hosts == 4) bytes_of_four = offered_bytes(installed);
    EXPECT_EQ(offered_bytes(installed), hosts / 4 * bytes_of_four) << "linear in hosts";
  }
}

TEST(PlanAreas, TheEndsOfATransferWriteToEachOther) {
  const auto reactor = Reactor::make_simulated();
  TestHosts t(*reactor, 3, 1, DeviceKind::kSim);
  const auto plan = std::make_shared<Plan>(*TestPlan::alternating_chain(2, 1, 2));
  plan->hosts.push_back("host-2");
  plan->slices.push_back({TestPlan::mesh_of(1), {{2, 0, 1}}});
  const std::vector<Installed> installed = t.install(kPlan, plan);
  EXPECT_THAT(installed[0].writes_to, ElementsAre(1));
  EXPECT_THAT(installed[1].writes_to, ElementsAre(0));
  EXPECT_THAT(installed[2].writes_to, ElementsAre());
}

}  // namespace
}  // namespace gangway::plan_areas_test
