#include "executor/devices/cuda/join_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"

namespace gangway::cuda {
namespace {

uint64_t seed_from_environment() {
  const char* text = std::getenv("GW_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261121;
}

Value all_reduce(Value x) {
  return x.builder().emit1(Op::all_reduce, {x}, {{"axes", "data"}, {"reduction", "sum"}}, Loc{});
}

// A function of its own memory, with scratch for every third node.
struct Planned {
  explicit Planned(Function function, Collectives collectives = Collectives::kBeside,
                   NodeId commit_begin = kNone) {
    function.local = true;
    const auto nodes = static_cast<NodeId>(function.nodes.size());
    local = {.function = std::make_shared<const Function>(std::move(function)),
             .commit_begin = std::min(commit_begin, nodes)};
    for (NodeId id = 0; id < nodes; ++id) scratch.push_back(id % 3 == 0 && !reduces(id) ? 64 : 0);
    memory =
        plan_memory(local, [&](const Function&, NodeId id) { return scratch[id]; }, collectives);
    joins = plan_joins(local, memory, scratch);
  }
  bool reduces(NodeId id) const { return local.function->nodes[id].op == Op::all_reduce; }

  LocalFunction local;
  std::vector<int64_t> scratch;
  MemoryPlan memory;
  std::vector<Join> joins;
};

bool clash(const Planned& p, NodeId a, NodeId b) {
  for (const Touch& x : touched(p.local, p.memory, p.scratch, a)) {
    for (const Touch& y : touched(p.local, p.memory, p.scratch, b)) {
      if (x.at.kind != y.at.kind || x.at.index != y.at.index || (!x.writes && !y.writes)) continue;
      for (int64_t i = x.at.offset; i < x.at.offset + x.bytes; ++i) {
        if (i >= y.at.offset && i < y.at.offset + y.bytes) return true;
      }
    }
  }
  return false;
}

// Every all-reduce is done before what clashes with it, and some clash, or the commit point, is why
// a step waits.
void expect_right(const Planned& p) {
  std::vector<NodeId> under_way;
  const auto nodes = static_cast<NodeId>(p.local.function->nodes.size());
  ASSERT_EQ(p.joins.size(), nodes + 1);
  for (NodeId id = 0; id < nodes; ++id) {
    const Join join = p.joins[id];
    if (join.wait) {
      ASSERT_LT(join.beside, under_way.size()) << id;
      const NodeId newest = under_way[under_way.size() - join.beside - 1];
      EXPECT_TRUE(id == p.local.commit_begin || clash(p, id, newest)) << id;
      under_way.erase(under_way.begin(), under_way.end() - join.beside);
    }
    if (p.reduces(id)) {
      under_way.push_back(id);
      continue;
    }
    for (NodeId other : under_way) EXPECT_FALSE(clash(p, id, other)) << id << ", " << other;
  }
  EXPECT_EQ(p.joins[nodes].wait, !under_way.empty());
  EXPECT_EQ(p.joins[nodes].beside, 0u);
}

Function random_function(Rng& rng) {
  Builder b("random");
  std::vector<Value> values{b.parameter("x", f32({6}))};
  for (int i = 0; i < 40; ++i) {
    Value a = values[rng.below(values.size())], c = values[rng.below(values.size())];
    switch (rng.below(4)) {
      case 0: values.push_back(reshape(reshape(a, {2, 3}), {6})); break;
      case 1: values.push_back(all_reduce(a)); break;
      case 2: values.push_back(exp(a)); break;
      default: values.push_back(a + c); break;
    }
  }
  b.result("y", values.back() + values[values.size() / 2]);
  return b.build();
}

TEST(JoinPlan, WhatTouchesTheBytesOfAnAllReduceWaitsForItAndNothingElseDoes) {
  const uint64_t seed = seed_from_environment();
  SCOPED_TRACE("GW_TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  size_t waits = 0, goes_on = 0;
  for (int round = 0; round < 100; ++round) {
    const Planned p(random_function(rng),
                    round % 2 == 0 ? Collectives::kBeside : Collectives::kInOrder,
                    static_cast<NodeId>(20 + rng.below(40)));
    expect_right(p);
    for (const Join& join : p.joins) {
      waits += join.wait;
      goes_on += join.wait && join.beside > 0;
    }
  }
  EXPECT_GT(waits, 100u);
  EXPECT_GT(goes_on, 10u) << "no all-reduce went on beside a step that waited for another";
}

TEST(JoinPlan, StepsThatDoNotNeedAnAllReduceGoOnBesideIt) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  Value sum = all_reduce(exp(x));
  Value other = tanh(tanh(x));
  b.result("y", sum + other);
  const Planned p(b.build());
  const std::vector<Node>& nodes = p.local.function->nodes;
  for (NodeId id = 0; id < nodes.size(); ++id)
    EXPECT_EQ(p.joins[id].wait, nodes[id].op == Op::add) << id;
}

}  // namespace
}  // namespace gangway::cuda
