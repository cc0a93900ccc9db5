#include "ir/plan/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/text/text.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// x: f32[8] over {data: 2}, one call that returns it, on one host of two devices.
Plan a_plan() {
  auto function = std::make_shared<Function>();
  function->name = "f";
  function->local = true;
  function->parameters = {{"x", {}}};
  function->types = {f32({4})};
  function->results = {0};
  Plan plan;
  plan.name = "p";
  plan.hosts = {"host-0"};
  plan.slices = {{Mesh{{{"data", 2}}}, {{0, 0, 2}}}};
  plan.functions = {{.function = function}};
  plan.values = {{"x", PlanStorage::kInput, 0, f32({8}), f32({4}), {shard(0)}},
                 {"y", PlanStorage::kOutput, 0, f32({8}), f32({4}), {shard(0)}}};
  plan.nodes = {{.name = "f", .function = 0, .inputs = {0}, .results = {1}}};
  plan.inputs = {0};
  plan.outputs = {1};
  return plan;
}

std::string mistake(const std::function<void(Plan&)>& spoil) {
  Plan plan = a_plan();
  spoil(plan);
  try {
    require_valid(plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.what();
  }
  return "accepted";
}

TEST(PlanCheckTest, AGoodPlanPasses) {
  EXPECT_EQ(mistake([](Plan&) {}), "accepted");
}

TEST(PlanCheckTest, IndicesMustExist) {
  EXPECT_THAT(mistake([](Plan& p) { p.nodes[0].inputs = {7}; }), HasSubstr("value 7"));
  EXPECT_THAT(mistake([](Plan& p) { p.nodes[0].function = 3; }), HasSubstr("function 3"));
  EXPECT_THAT(mistake([](Plan& p) { p.nodes[0].slice = 1; }), HasSubstr("slice 1"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranges[0].host = 1; }), HasSubstr("host 1"));
  EXPECT_THAT(mistake([](Plan& p) { p.sources = {0}; }), HasSubstr("no source node"));
  EXPECT_THAT(mistake([](Plan& p) { p.states = {{9, nullptr}}; }), HasSubstr("value 9"));
  EXPECT_THAT(mistake([](Plan& p) { p.outputs = {8}; }), HasSubstr("value 8"));
}

TEST(PlanCheckTest, EachHostLiesInOneIslandWithAPlainName) {
  EXPECT_EQ(mistake([](Plan& p) { p.islands = {"rack-7.b_2"}; }), "accepted");
  EXPECT_THAT(mistake([](Plan& p) { p.islands = {"a", "b"}; }), HasSubstr("islands of 2 hosts"));
  EXPECT_THAT(mistake([](Plan& p) { p.islands = {""}; }), HasSubstr("island \"\": expected 1 to"));
  EXPECT_THAT(mistake([](Plan& p) { p.islands = {"a\nb"}; }), HasSubstr("\"a\\nb\""));
  EXPECT_THAT(mistake([](Plan& p) { p.islands = {std::string(65, 'a')}; }), HasSubstr("to 64"));
}

TEST(PlanCheckTest, EachHostIsOnAMachine) {
  EXPECT_EQ(mistake([](Plan& p) { p.machines = {7}; }), "accepted");
  EXPECT_THAT(mistake([](Plan& p) { p.machines = {0, 1}; }), HasSubstr("machines of 2 hosts"));
}

TEST(PlanCheckTest, RangesMustCoverTheMeshOnce) {
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranges[0].count = 1; }), HasSubstr("cover 1"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranges = {{0, 0, 1}, {0, 0, 1}}; }),
              HasSubstr("twice in one slice"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0] = {Mesh{{{"data", 4}}}, {{0, 1, 2}, {0, 0, 2}}}; }),
              HasSubstr("device 1 of host 0 is twice in one slice"));
}

TEST(PlanCheckTest, ADeviceMayRunSeveralRanksWhichCoverTheMeshTogether) {
  EXPECT_EQ(mistake([](Plan& p) { p.slices[0] = {p.slices[0].mesh, {{0, 0, 1}}, 2}; }), "accepted");
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranks_per_device = 2; }), HasSubstr("cover more"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0] = {p.slices[0].mesh, {{0, 0, 1}}, 3}; }),
              HasSubstr("cover more than its 2 devices"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0] = {Mesh{{{"data", 8}}}, {{0, 0, 2}}, 3}; }),
              HasSubstr("cover 2 devices with 3 of its ranks on each, its mesh has 8"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranks_per_device = 0; }),
              HasSubstr("0 ranks on each device: expected 1 to 64"));
  EXPECT_THAT(mistake([](Plan& p) { p.slices[0].ranks_per_device = 65; }), HasSubstr("65 ranks"));
}

TEST(PlanCheckTest, LocalTypesMustFollowFromTheSharding) {
  EXPECT_THAT(mistake([](Plan& p) { p.values[0].local_type = f32({8}); }),
              HasSubstr("does not lie over mesh {data: 2}"));
  EXPECT_THAT(mistake([](Plan& p) {
                p.values[0].sharding = {replicate()};
                p.values[0].local_type = f32({8});
              }),
              HasSubstr("expected f32[4] on each device, got f32[8]"));
  EXPECT_THAT(mistake([](Plan& p) { p.values[0].type = f32({7}); }),
              HasSubstr("f32[7] does not lie over mesh {data: 2} as it says"))
      << "padded parts";
  EXPECT_THAT(mistake([](Plan& p) { p.values[0].sharding = {shard(0, 16)}; }),
              HasSubstr("value 0 is cut in the order 16"));
  EXPECT_EQ(mistake([](Plan& p) { p.values[0].sharding = {shard(0, 15)}; }), "accepted");
}

TEST(PlanCheckTest, ValuesOfAPlanFitADevice) {
  EXPECT_THAT(mistake([](Plan& p) {
                const Type huge = f64({kElementsMax});
                p.values.resize(40, {"big", PlanStorage::kInput, 0, huge, huge, {replicate()}});
              }),
              HasSubstr("its values take more than 72057594037927936 bytes of a device"));
}

TEST(PlanCheckTest, NoNodeReadsAValueBeforeALowerTicketWroteIt) {
  EXPECT_THAT(mistake([](Plan& p) { p.nodes[0].inputs = {1}; }), HasSubstr("before it is written"));
  EXPECT_THAT(mistake([](Plan& p) { p.nodes.clear(); }), HasSubstr("never written"));
}

TEST(PlanCheckTest, ACallsFunctionIsOfTheMeshOfItsSlice) {
  EXPECT_THAT(mistake([](Plan& p) {
                auto other = std::make_shared<Function>(*p.functions[0].function);
                other->mesh = {{{"model", 2}}};
                p.functions[0].function = other;
              }),
              HasSubstr("its function is of mesh {model: 2}, its slice of {data: 2}"));
}

// p gets a second slice {data: `devices`} on its host.
void add_slice(Plan& p, int64_t devices) {
  p.slices.push_back({Mesh{{{"data", devices}}}, {{0, 0, static_cast<uint32_t>(devices)}}});
}

TEST(PlanCheckTest, ACallReadsAndWritesOnItsOwnSlice) {
  EXPECT_THAT(mistake([](Plan& p) {
                add_slice(p, 2);
                p.values[0].slice = 1;
              }),
              HasSubstr("value 0 lies on slice 1, it runs on slice 0"));
  EXPECT_THAT(mistake([](Plan& p) {
                add_slice(p, 2);
                p.values[1].slice = 1;
              }),
              HasSubstr("value 1 lies on slice 1, it runs on slice 0"));
}

// The plan's result goes to a second slice of so many devices.
void add_transfer(Plan& p, int64_t devices, const Type& local) {
  add_slice(p, devices);
  p.values.push_back({"", PlanStorage::kTemporary, 1, f32({4 * devices}), local, {shard(0)}});
  p.nodes.push_back({.kind = PlanNodeKind::kSend, .name = "s", .peer = 2, .inputs = {1}});
  p.nodes.push_back(
      {.kind = PlanNodeKind::kReceive, .name = "r", .slice = 1, .peer = 1, .results = {2}});
}

TEST(PlanCheckTest, ATransferMovesOneValueBetweenSlicesOfEqualSize) {
  const auto with_transfer = [](int64_t devices, const std::function<void(Plan&)>& spoil) {
    return mistake([&](Plan& p) {
      add_transfer(p, devices, f32({4}));
      spoil(p);
    });
  };
  EXPECT_EQ(with_transfer(2, [](Plan&) {}), "accepted");
  EXPECT_THAT(with_transfer(1, [](Plan&) {}), HasSubstr("receive \"r\": the ends"));
  EXPECT_THAT(with_transfer(2, [](Plan& p) { p.nodes[2].slice = 0; }),
              HasSubstr("value 2 lies on slice 1, it runs on slice 0"));
  EXPECT_THAT(with_transfer(2, [](Plan& p) { p.nodes[1].slice = 1; }),
              HasSubstr("value 1 lies on slice 0, it runs on slice 1"));
  EXPECT_THAT(with_transfer(2, [](Plan& p) { p.nodes[1].inputs = {}; }), HasSubstr("one value"));
  EXPECT_THAT(with_transfer(2, [](Plan& p) { p.nodes[2].inputs = {2}; }),
              HasSubstr("before it is written"));
}

TEST(PlanCheckTest, ASendComesBeforeItsOneReceive) {
  const auto with_transfer = [](const std::function<void(std::vector<PlanNode>&)>& spoil) {
    return mistake([&](Plan& p) {
      add_transfer(p, 2, f32({4}));
      spoil(p.nodes);
    });
  };
  using Nodes = std::vector<PlanNode>;
  EXPECT_THAT(with_transfer([](Nodes& n) { n[1].peer = 7; }), HasSubstr("node 7 is no later"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n[1].peer = 0; }), HasSubstr("node 0 is no later"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n[2].peer = 0; }), HasSubstr("node 2 is no later"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n[2].kind = PlanNodeKind::kSource; }),
              HasSubstr("node 2 is no later receive"));
  EXPECT_THAT(with_transfer([](Nodes& n) {
                std::swap(n[1], n[2]);
                std::swap(n[1].peer, n[2].peer);
              }),
              HasSubstr("receive \"r\", node 1: node 2 is no earlier send"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n.push_back(n[2]); }),
              HasSubstr("receive \"r\", node 3: node 1 is no earlier send to it"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n.push_back(n[1]); }),
              HasSubstr("send \"s\", node 3: node 2 is no later receive from it"));
  EXPECT_THAT(with_transfer([](Nodes& n) { n[0].peer = 2; }), HasSubstr("\"f\" has a peer"));
}

TEST(PlanCheckTest, AHostRunsOnlyOnDevicesThatItHas) {
  EXPECT_NO_THROW(require_valid_on(a_plan(), 0, 2));
  const auto refusal = [](const Plan& plan, uint32_t self, uint32_t devices) -> std::string {
    try {
      require_valid_on(plan, self, devices);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(a_plan(), 0, 1), HasSubstr("devices 0 to 1 of host \"host-0\", which has 1"));
  EXPECT_THAT(refusal(a_plan(), 1, 2), HasSubstr("number 1 of 1"));
  Plan wider = a_plan();
  wider.hosts.push_back("host-1");
  EXPECT_THAT(refusal(wider, 1, 2), HasSubstr("runs on no device of host \"host-1\""));
  wider.nodes[0].function = 3;
  EXPECT_THAT(refusal(wider, 0, 2), HasSubstr("function 3"));
}

// A scan over a body in which the devices meet.
std::shared_ptr<const Function> loop_that_meets() {
  return std::make_shared<Function>(parse_function(
      "body 0 local func @layer(%0 \"c\": f32[4]) mesh {data: 2} { "
      "%1: f32[4] = all_reduce %0 {axes = \"data\", reduction = \"sum\"} return %1 \"c\" } "
      "local func @init() mesh {data: 2} { %0: f32[4] = constant {dims = [4], dtype = f32, value = "
      "0.0} "
      "%1: f32[4] = scan %0 {carries = 1, length = 3} body 0 return %1 \"x\" }"));
}

TEST(PlanCheckTest, AnInitialiserHasNoCollectivesEvenInABody) {
  const auto with_init = [](std::shared_ptr<const Function> init) {
    return mistake([&](Plan& p) {
      p.values[0].storage = PlanStorage::kState;
      p.inputs = {};
      p.states = {{0, std::move(init)}};
    });
  };
  EXPECT_THAT(with_init(loop_that_meets()),
              HasSubstr("state \"x\": its initialiser must not wait for other devices: it has "
                        "all_reduce"));
  auto alone = std::make_shared<Function>(*loop_that_meets());
  alone->nodes[1].body = std::make_shared<Function>(
      parse_function("local func @layer(%0 \"c\": f32[4]) mesh {data: 2} { return %0 \"c\" }"));
  EXPECT_EQ(with_init(alone), "accepted");
}

TEST(PlanCheckTest, EverySourceIsListedOnce) {
  const auto with_sources = [](std::vector<uint32_t> sources) {
    return mistake([&](Plan& p) {
      p.values.push_back({"s", PlanStorage::kTemporary, 0, i32({4}), i32({4}), {replicate()}});
      p.nodes.push_back({.kind = PlanNodeKind::kSource, .name = "s", .results = {2}});
      p.sources = std::move(sources);
    });
  };
  EXPECT_EQ(with_sources({1}), "accepted");
  EXPECT_THAT(with_sources({}), HasSubstr("1 source nodes, and lists 0"));
  EXPECT_THAT(with_sources({1, 1}), HasSubstr("listed twice"));
}

TEST(PlanCheckTest, SectionsAscendFromTheFirstNodeAndOneBeginsAtTheCommitPoint) {
  using Sections = std::vector<LocalFunction::Section>;
  const auto with_sections = [](NodeId commit_begin, const Sections& sections) {
    return mistake([&](Plan& p) {
      auto function = std::make_shared<Function>(*p.functions[0].function);
      function->nodes.resize(8);
      p.functions[0] = {.function = function, .commit_begin = commit_begin, .sections = sections};
    });
  };
  EXPECT_EQ(with_sections(8, {}), "accepted");
  EXPECT_EQ(with_sections(6, {{0, 0}, {3, 1000}, {6, kSectionNsMax}}), "accepted");
  EXPECT_EQ(with_sections(0, {{0, 5}}), "accepted");
  EXPECT_EQ(with_sections(8, {{0, 5}}), "accepted");
  EXPECT_THAT(with_sections(8, {{1, 5}}), HasSubstr("section 0 begins at step 1: expected 0"));
  EXPECT_THAT(with_sections(8, {{0, 5}, {3, 5}, {3, 5}}), HasSubstr("section 2 begins at step 3"));
  EXPECT_THAT(with_sections(8, {{0, 5}, {8, 5}}), HasSubstr("begins at step 8, there are 8"));
  EXPECT_THAT(with_sections(8, {{0, -1}}), HasSubstr("takes -1 ns"));
  EXPECT_THAT(with_sections(8, {{0, kSectionNsMax + 1}}), HasSubstr("expected 0 to"));
  EXPECT_THAT(with_sections(6, {{0, 5}, {5, 5}}),
              HasSubstr("no section begins at its commit point, step 6"));
}

TEST(PlanCheckTest, APlanHasOneGateAtMost) {
  const auto with_gates = [](int gates) {
    return mistake([gates](Plan& p) {
      for (int i = 0; i < gates; ++i) p.nodes.push_back({.kind = PlanNodeKind::kGate});
    });
  };
  EXPECT_EQ(with_gates(1), "accepted");
  EXPECT_THAT(with_gates(2), HasSubstr("two gates"));
}

TEST(PlanCheckTest, ACommitNamesAnEarlierCall) {
  EXPECT_THAT(mistake([](Plan& p) {
                p.nodes.push_back({.kind = PlanNodeKind::kCommit, .name = "c", .call = 1});
              }),
              HasSubstr("names no earlier call of its slice"));
}

TEST(PlanCheckTest, ACommitComesBehindTheGate) {
  const auto with_order = [](std::vector<PlanNodeKind> kinds) {
    return mistake([&](Plan& p) {
      for (const PlanNodeKind kind : kinds)
        p.nodes.push_back({.kind = kind, .call = kind == PlanNodeKind::kCommit ? 0 : kNone});
    });
  };
  EXPECT_EQ(with_order({PlanNodeKind::kGate, PlanNodeKind::kCommit}), "accepted");
  EXPECT_THAT(with_order({PlanNodeKind::kCommit, PlanNodeKind::kGate}),
              HasSubstr("comes before the gate"));
}

}  // namespace
}  // namespace gangway
