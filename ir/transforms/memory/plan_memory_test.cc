#include "ir/transforms/memory/plan_memory.h"

#include <gtest/gtest.h>

#include <map>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway::plan_memory_test {
namespace {

LocalFunction local_function(Function function) {
  function.local = true;
  auto nodes = static_cast<NodeId>(function.nodes.size());
  return {.function = std::make_shared<const Function>(std::move(function)), .commit_begin = nodes};
}

// The last node that needs each arena buffer, by offset of the value that owns it.
void expect_no_overlap(const Function& function, const MemoryPlan& plan,
                       const Together& together = {}) {
  struct Live {
    int64_t begin, end;
    NodeId last;
  };
  std::vector<NodeId> last(function.types.size(), 0);
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    for (ValueId input : function.nodes[id].inputs) last[input] = id;
  }
  const auto keep = [&](ValueId value) { last[value] = std::max(last[value], together.back()); };
  for (const NodeId id : together) {
    for (const ValueId input : function.nodes[id].inputs) keep(input);
    keep(function.nodes[id].first_result);
  }
  // Aliases keep their source alive: walk back from each reshape.
  for (NodeId id = static_cast<NodeId>(function.nodes.size()); id-- > 0;) {
    const Node& node = function.nodes[id];
    if (node.op != Op::reshape) continue;
    last[node.inputs[0]] = std::max(last[node.inputs[0]], last[node.first_result]);
  }
  std::map<ValueId, Live> live;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    std::erase_if(live, [&](const auto& item) { return item.second.last < id; });
    ValueId value = node.first_result;
    const MemorySlot& slot = plan.slots[value];
    if (slot.kind != MemorySlot::Kind::kArena || node.op == Op::reshape) continue;
    Live now{slot.offset, slot.offset + function.types[value].bytes(), std::max(id, last[value])};
    EXPECT_EQ(slot.offset % kArenaAlignment, 0);
    EXPECT_LE(now.end, plan.arena_bytes);
    for (const auto& [other, range] : live) {
      EXPECT_TRUE(now.end <= range.begin || range.end <= now.begin)
          << "%" << value << " overlaps %" << other << ", both live at node " << id;
    }
    live[value] = now;
  }
}

Function random_function(Rng& rng) {
  Builder b("random");
  std::vector<Value> values;
  int64_t n = 1 + static_cast<int64_t>(rng.below(300));
  values.push_back(b.parameter("x", f32({n, 2})));
  for (int i = 0; i < 40; ++i) {
    Value a = values[rng.below(values.size())], c = values[rng.below(values.size())];
    switch (rng.below(4)) {
      case 0: values.push_back(reshape(reshape(a, {2, n}), {n, 2})); break;
      case 1: values.push_back(exp(a)); break;
      case 2: values.push_back(slice(concat({a, c}, 0), 0, n / 2, n / 2 + n)); break;
      default: values.push_back(a + c); break;
    }
  }
  b.result("y", values.back() + values[values.size() / 2]);
  return b.build();
}

TEST(PlanMemory, LiveValuesNeverOverlap) {
  Rng rng(tests::test_seed());
  for (int round = 0; round < 50; ++round) {
    LocalFunction local = local_function(random_function(rng));
    expect_no_overlap(*local.function, plan_memory(local, nullptr));
  }
}

TEST(PlanMemory, NodesThatRunTogetherKeepWhatTheyTouchUntilTheLastOfThem) {
  Rng rng(tests::test_seed(), 1);
  for (int round = 0; round < 50; ++round) {
    LocalFunction local = local_function(random_function(rng));
    const auto nodes = static_cast<NodeId>(local.function->nodes.size());
    Together together;
    for (NodeId id = 0; id < nodes; ++id)
      if (rng.below(8) == 0) together.push_back(id);
    if (together.empty()) continue;
    expect_no_overlap(*local.function, plan_memory(local, nullptr, {}, {together}), together);
  }
}

TEST(PlanMemory, AChainNeedsTwoBuffersHoweverLong) {
  Builder b("chain");
  Value x = b.parameter("x", f32({1024}));
  for (int i = 0; i < 20; ++i) x = exp(x);
  b.result("y", x);
  EXPECT_EQ(plan_memory(local_function(b.build()), nullptr).arena_bytes, 2 * 4096);
}

TEST(PlanMemory, ScratchpadsAreCounted) {
  Builder b("one");
  b.result("y", exp(b.parameter("x", f32({16}))));
  MemoryPlan plan =
      plan_memory(local_function(b.build()), [](const Function&, NodeId) { return int64_t{100}; });
  EXPECT_EQ(plan.arena_bytes, 256) << "aligned to 256";
  EXPECT_EQ(plan.scratch_offset[0], 0);
}

TEST(PlanMemory, AnOperandOfAnOverlappedCollectiveIsNotReusedByLaterNodes) {
  for (const auto& [op, attrs] :
       {std::pair{Op::all_reduce, Attrs{{"axes", "data"}}},
        std::pair{Op::permute, Attrs{{"axes", "data"}, {"to", "data"}}}}) {
    Builder b("f");
    Value x = b.parameter("x", f32({16}));
    Value read = exp(x);
    Value got = b.emit1(op, {read}, attrs, Loc{});
    Value beside = tanh(x);
    b.result("y", got + beside);
    const MemoryPlan plan = plan_memory(local_function(b.build()), nullptr);
    EXPECT_NE(plan.slots[read.id()], plan.slots[beside.id()]) << to_string(op);
  }
}

// A body: x is its carry, a row its other result.
struct WithPending {
  LocalFunction local;
  ValueId early = 0, read = 0;

  explicit WithPending(size_t collectives_behind) {
    Builder b("body");
    Value x = b.parameter("x", f32({16}));
    const auto sum = [&](Value of) {
      return b.emit1(Op::all_reduce, {of}, {{"axes", "data"}, {"reduction", "sum"}}, Loc{});
    };
    const Value first = tanh(x), term = exp(tanh(first));
    b.result("row", sum(term));
    for (size_t i = 0; i < collectives_behind; ++i) b.result(cat("row.", i), sum(x));
    b.result("x", neg(neg(x)));
    local = local_function(b.build());
    early = first.id();
    read = term.id();
  }
  bool same_place(std::optional<Repeated> repeated) const {
    const MemoryPlan plan = plan_memory(local, nullptr, repeated);
    return plan.slots[early] == plan.slots[read];
  }
};

TEST(PlanMemory, AnOperandOfAnOverlappedCollectiveIsNotReusedByTheNextIteration) {
  const WithPending body(0);
  EXPECT_TRUE(body.same_place({}));
  EXPECT_FALSE(body.same_place(Repeated{1}));
}

TEST(PlanMemory, BesideTheNextIterationTheLastCollectivesAloneKeepWhatTheyRead) {
  EXPECT_FALSE(WithPending(kKeptCollectives - 1).same_place(Repeated{1}));
  EXPECT_TRUE(WithPending(kKeptCollectives).same_place(Repeated{1}));
}

TEST(PlanMemory, AnOperandOfACollectiveIsKeptUntilAReshapedResultIsRead) {
  Builder b("f");
  Value x = b.parameter("x", f32({16}));
  Value read = exp(x);
  Value got = reshape(
      b.emit1(Op::all_reduce, {read}, {{"axes", "data"}, {"reduction", "sum"}}, Loc{}), {4, 4});
  Value beside = tanh(x);
  b.result("y", got + reshape(beside, {4, 4}));
  const MemoryPlan plan = plan_memory(local_function(b.build()), nullptr);
  EXPECT_NE(plan.slots[read.id()], plan.slots[beside.id()]);
}

TEST(PlanMemory, InPlaceResultsLiveInTheirParametersBuffer) {
  Builder b("update");
  Value p = b.parameter("p", f32({16}));
  b.result("p", exp(p));
  LocalFunction local = local_function(b.build());
  local.in_place = {{0, 0}};
  MemoryPlan plan = plan_memory(local, nullptr);
  EXPECT_EQ(plan.slots[1].kind, MemorySlot::Kind::kParameter);
  EXPECT_EQ(plan.arena_bytes, 0);
}

}  // namespace
}  // namespace gangway::plan_memory_test
