#include "ir/transforms/memory/join_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway::join_plan_test {
namespace {

Value all_reduce(Value x, const std::string& axes = "data") {
  return x.builder().emit1(Op::all_reduce, {x}, {{"axes", axes}, {"reduction", "sum"}}, Loc{});
}

enum class Streams { kOne, kByAxes };

// A function of its own memory, with scratch for every third node.
struct Planned {
  explicit Planned(Function function, Streams how = Streams::kOne, NodeId commit_begin = kNone)
      : streams(how) {
    function.local = true;
    const auto nodes = static_cast<NodeId>(function.nodes.size());
    local = {.function = std::make_shared<const Function>(std::move(function)),
             .commit_begin = std::min(commit_begin, nodes)};
    for (NodeId id = 0; id < nodes; ++id) scratch.push_back(id % 3 == 0 && !reduces(id) ? 64 : 0);
    memory = plan_memory(local, scratch_bytes());
    const JoinPlan plan =
        plan_joins(local, memory, scratch_bytes(), [this](NodeId id) { return stream_of(id); });
    joins = plan.before;
    behind = plan.behind;
  }
  ScratchBytes scratch_bytes() const {
    return [this](const Function&, NodeId id) { return scratch[id]; };
  }
  uint32_t stream_of(NodeId id) const {
    const bool other = local.function->nodes[id].attrs.text("axes") != "data";
    return streams == Streams::kByAxes && other ? 1 : 0;
  }
  bool reduces(NodeId id) const { return local.function->nodes[id].op == Op::all_reduce; }

  LocalFunction local;
  std::vector<int64_t> scratch;
  MemoryPlan memory;
  std::vector<std::vector<Join>> joins;
  std::vector<Join> behind;
  Streams streams;
};

bool clash(const Planned& p, NodeId a, NodeId b) {
  for (const Touch& x : touched(p.local, p.memory, p.scratch_bytes(), a)) {
    for (const Touch& y : touched(p.local, p.memory, p.scratch_bytes(), b)) {
      if (x.at.kind != y.at.kind || x.at.index != y.at.index || (!x.writes && !y.writes)) continue;
      for (int64_t i = x.at.offset; i < x.at.offset + x.bytes; ++i) {
        if (i >= y.at.offset && i < y.at.offset + y.bytes) return true;
      }
    }
  }
  return false;
}

// Every all-reduce is done before any node that clashes with it, and a step waits only because of a
// clash or of the commit point. All-reduces of one stream are done in their order.
void expect_right(const Planned& p) {
  std::map<uint32_t, std::vector<NodeId>> under_way;  // Indexed by stream.
  for (NodeId id = 0; id < p.joins.size(); ++id) {
    for (const Join& join : p.joins[id]) {
      std::vector<NodeId>& stream = under_way[join.stream];
      ASSERT_LT(join.overlapped, stream.size()) << id;
      const NodeId newest = stream[stream.size() - join.overlapped - 1];
      EXPECT_TRUE(id == p.local.commit_begin || clash(p, id, newest)) << id;
      stream.erase(stream.begin(), stream.end() - join.overlapped);
    }
    const uint32_t own = p.reduces(id) ? p.stream_of(id) : kNone;
    for (const auto& [stream, nodes] : under_way) {
      if (stream == own) continue;
      for (NodeId other : nodes) EXPECT_FALSE(clash(p, id, other)) << id << ", " << other;
    }
    if (p.reduces(id)) under_way[own].push_back(id);
  }
  for (const Join& join : p.behind) {
    EXPECT_EQ(join.overlapped, 0u);
    under_way.erase(join.stream);
  }
  for (const auto& [stream, nodes] : under_way) EXPECT_TRUE(nodes.empty()) << stream;
}

Function random_function(Rng& rng) {
  Builder b("random");
  std::vector<Value> values{b.parameter("x", f32({6}))};
  for (int i = 0; i < 40; ++i) {
    Value a = values[rng.below(values.size())], c = values[rng.below(values.size())];
    switch (rng.below(4)) {
      case 0: values.push_back(reshape(reshape(a, {2, 3}), {6})); break;
      case 1: values.push_back(all_reduce(a, rng.chance(0.5) ? "data" : "model")); break;
      case 2: values.push_back(exp(a)); break;
      default: values.push_back(a + c); break;
    }
  }
  b.result("y", values.back() + values[values.size() / 2]);
  return b.build();
}

TEST(JoinPlan, OnlyStepsThatTouchTheBytesOfAnAllReduceWaitForIt) {
  Rng rng(tests::test_seed());
  size_t waits = 0, goes_on = 0;
  for (int round = 0; round < 100; ++round) {
    const Planned p(random_function(rng), round % 3 == 0 ? Streams::kOne : Streams::kByAxes,
                    static_cast<NodeId>(20 + rng.below(40)));
    expect_right(p);
    for (const std::vector<Join>& joins : p.joins) {
      waits += joins.size();
      for (const Join& join : joins) goes_on += join.overlapped > 0 ? 1 : 0;
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
    EXPECT_EQ(!p.joins[id].empty(), nodes[id].op == Op::add) << id;
}

TEST(JoinPlan, AStepWaitsForTheStreamThatItNeedsAlone) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  Value a = all_reduce(exp(x)), c = all_reduce(tanh(x), "model");
  b.result("y", -c);
  b.result("z", -a);
  const Planned p(b.build(), Streams::kByAxes);
  EXPECT_EQ(p.joins[4], (std::vector<Join>{{.stream = 1}}));
  EXPECT_EQ(p.joins[5], (std::vector<Join>{{.stream = 0}}));
}

TEST(JoinPlan, AllReducesThatABodyBeginsAreWaitedForBehindIt) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  b.result("y", all_reduce(exp(x)));
  b.result("z", all_reduce(tanh(x), "model"));
  const Planned p(b.build(), Streams::kByAxes);
  for (const std::vector<Join>& joins : p.joins) EXPECT_TRUE(joins.empty());
  EXPECT_EQ(p.behind, (std::vector<Join>{{.stream = 1}, {.stream = 0}}));
}

// Iterations of a body: carries x and acc, a slice; what each begins is a collective of its own.
struct Repetition {
  std::vector<std::vector<Join>> joins;
  std::vector<Join> behind;

  explicit Repetition(Function body, size_t carries) {
    body.local = true;
    const auto nodes = static_cast<NodeId>(body.nodes.size());
    const LocalFunction local{.function = std::make_shared<const Function>(std::move(body)),
                              .commit_begin = nodes};
    const ScratchBytes scratch = [](const Function&, NodeId) { return int64_t{0}; };
    const MemoryPlan memory = plan_memory(local, scratch, Repeated{carries});
    JoinPlan plan = plan_joins(local, memory, scratch, nullptr, Repeated{carries});
    joins = std::move(plan.before);
    behind = std::move(plan.behind);
  }
};

TEST(JoinPlan, ARowOfAStackIsReducedWhileTheNextIterationGoesOn) {
  Builder b("body");
  Value x = b.parameter("x", f32({8})), slice = b.parameter("slice", f32({8}));
  b.result("x", exp(x));
  b.result("row", all_reduce(slice));
  const Repetition r(b.build(), 1);
  for (const std::vector<Join>& joins : r.joins) EXPECT_TRUE(joins.empty());
  EXPECT_EQ(r.behind, (std::vector<Join>{{0, 1}})) << "that of the iteration before";
}

TEST(JoinPlan, ACarryIsWaitedForWhereTheNextIterationReadsIt) {
  Builder b("body");
  Value x = b.parameter("x", f32({8})), slice = b.parameter("slice", f32({8}));
  Value ahead = b.parameter("ahead", f32({8}));
  static_cast<void>(slice);
  Value early = exp(x);
  b.result("x", early + ahead);
  b.result("ahead", all_reduce(slice));
  Function body = b.build();
  // x and ahead are the carries, the slice comes behind them.
  std::swap(body.parameters[1], body.parameters[2]);
  for (Node& node : body.nodes) {
    for (ValueId& input : node.inputs) input = input == 1 ? 2 : input == 2 ? 1 : input;
  }
  const Repetition r(std::move(body), 2);
  const auto& nodes = r.joins;
  ASSERT_EQ(nodes.size(), 3u);  // exp, add, all_reduce
  EXPECT_TRUE(nodes[0].empty());
  EXPECT_EQ(nodes[1], (std::vector<Join>{{0, 0}})) << "the sum reads what was made ahead";
  EXPECT_TRUE(r.behind.empty()) << "nothing of the iteration before is left";
}

TEST(JoinPlan, TheNextIterationGoesOnToTheStepThatWritesWhatACollectiveStillReads) {
  Builder b("body");
  Value x = b.parameter("x", f32({8}));
  Value term = exp(tanh(tanh(x)));
  b.result("x", neg(x));
  b.result("row", all_reduce(term));
  const Repetition r(b.build(), 1);
  ASSERT_EQ(r.joins.size(), 5u);
  EXPECT_TRUE(r.joins[0].empty());
  EXPECT_TRUE(r.joins[1].empty());
  EXPECT_EQ(r.joins[2], (std::vector<Join>{{0, 0}})) << "exp writes where the sum still reads";
}

}  // namespace
}  // namespace gangway::join_plan_test
