#include "ir/plan/plan_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/plan/plan_check.h"
#include "ir/plan/plan_members.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "tests/support/error_of.h"

namespace gangway::plan_wire_test {
namespace {

using testing::HasSubstr;

// x: f32[8] over {data: 2}, one call that returns it, on one host of two devices.
Plan a_plan() {
  auto function = std::make_shared<Function>();
  function->name = "f";
  function->mesh = {{{"data", 2}}};
  function->local = true;
  function->parameters = {{"x", {}}};
  function->types = {f32({4})};
  function->nodes = {{.op = Op::neg, .inputs = {0}, .first_result = 1}};
  function->types.push_back(f32({4}));
  function->infos.resize(1);
  function->results = {1};
  function->result_names = {"y"};
  Plan plan;
  plan.name = "p";
  plan.hosts = {"host-0"};
  plan.islands = {"east"};
  plan.machines = {3};
  plan.slices = {{function->mesh, {{0, 0, 2}}}};
  plan.functions = {{.function = function, .commit_begin = 1, .sections = {{0, 250'000}}}};
  plan.values = {{"x", PlanStorage::kInput, 0, f32({8}), f32({4}), {shard(0)}},
                 {"y", PlanStorage::kOutput, 0, f32({8}), f32({4}), {shard(0)}}};
  plan.nodes = {{.name = "f", .function = 0, .inputs = {0}, .results = {1}, .at = "a.cc:3"}};
  plan.nodes[0].attrs.set("note", std::string("kept"));
  plan.inputs = {0};
  plan.outputs = {1};
  plan.dispatch = Dispatch::kSequential;
  return plan;
}

TEST(PlanWireTest, APlanReadsBackAsItWasWritten) {
  const Plan plan = plan_from_wire(to_wire(a_plan()));
  EXPECT_EQ(plan.name, "p");
  EXPECT_EQ(plan.hosts, a_plan().hosts);
  EXPECT_EQ(plan.islands, a_plan().islands);
  EXPECT_EQ(plan.machines, a_plan().machines);
  EXPECT_EQ(plan.slices[0].ranges, a_plan().slices[0].ranges);
  EXPECT_TRUE(same_graph(*plan.functions[0].function, *a_plan().functions[0].function));
  EXPECT_EQ(plan.functions[0].sections, a_plan().functions[0].sections);
  EXPECT_EQ(plan.values[1].local_type, f32({4}));
  EXPECT_EQ(plan.nodes[0].attrs, a_plan().nodes[0].attrs);
  EXPECT_EQ(plan.nodes[0].at, "a.cc:3");
  EXPECT_EQ(plan.dispatch, Dispatch::kSequential);
  EXPECT_EQ(to_wire(plan), to_wire(a_plan()));
}

TEST(PlanWireTest, AnOverlaidPlanReadsBackAsOverlaid) {
  Plan plan = a_plan();
  EXPECT_FALSE(plan_from_wire(to_wire(plan)).overlaid);
  plan.overlaid = true;
  EXPECT_THAT(error_text_of([&] { plan_from_wire(to_wire(plan)); }),
              HasSubstr("overlaid, though it is dispatched sequentially"));
  plan.dispatch = Dispatch::kParallel;
  EXPECT_TRUE(plan_from_wire(to_wire(plan)).overlaid);
}

TEST(PlanWireTest, RanksOfADeviceReadBack) {
  Plan plan = a_plan();
  plan.slices[0] = {plan.slices[0].mesh, {{0, 0, 1}}, 2};
  EXPECT_EQ(plan_from_wire(to_wire(plan)).slices[0].ranks_per_device, 2u);
  EXPECT_EQ(SliceMembers(plan.slices[0]).at(1), (Member{0, 0, 1}));
}

TEST(PlanWireTest, DamagedBytesGiveAnInvalidErrorOrAPlanThatKeepsTheRules) {
  const std::vector<std::byte> good = to_wire(a_plan());
  Rng rng(20261121);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bad = good;
    for (uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      bad[rng.below(bad.size())] ^= static_cast<std::byte>(1u << rng.below(8));
    }
    if (rng.chance(0.3)) bad.resize(rng.below(bad.size()));
    try {
      require_valid(plan_from_wire(bad));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    }
  }
}

}  // namespace
}  // namespace gangway::plan_wire_test
