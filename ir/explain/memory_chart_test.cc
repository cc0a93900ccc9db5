#include "ir/explain/memory_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/transforms/rewrite/simplify.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kKib = 1024;

LocalFunction local_of(Function function) {
  function.local = true;
  const auto nodes = static_cast<NodeId>(function.nodes.size());
  return {.function = std::make_shared<const Function>(std::move(function)), .commit_begin = nodes};
}

// a = exp x, c = exp a, y = a + c: two tensors live from c on, and the result is not in the arena.
TEST(MemoryChart, StepsCountTheBytesThatAreLive) {
  Builder b("f");
  const Value x = b.parameter("x", f32({256}));
  const Value a = exp(x), c = exp(a);
  b.result("y", a + c);
  const LocalFunction local = local_of(b.build());
  const MemoryPlan plan = plan_memory(local, {});
  const std::vector<ArenaStep> steps = arena_steps({{local.function.get(), &plan}});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].bytes, kKib);
  EXPECT_EQ(steps[1].bytes, 2 * kKib);
  EXPECT_EQ(steps[2].bytes, 2 * kKib);
  const auto most = std::ranges::max(steps, {}, &ArenaStep::bytes);
  EXPECT_LE(most.bytes, plan.arena_bytes);
}

TEST(MemoryChart, NamesWhoHoldsThePeakByLineAndScope) {
  Builder b("f");
  const Value x = b.parameter("x", f32({256}));
  Value y = exp(x);
  int line = 0;
  {
    const Builder::Scope in(b, "layers.0");
    line = __LINE__ + 1;
    const Value wide = broadcast_in(y, {64, 256}, {1});
    y = sum(tanh(wide), {0});
  }
  b.result("y", y);
  const LocalFunction local = local_of(b.build());
  const MemoryPlan plan = plan_memory(
      local, [](const Function& f, NodeId id) { return f.nodes[id].op == Op::tanh ? 512 : 0; });
  const std::string text = memory_chart({{local.function.get(), &plan}});
  EXPECT_THAT(text, HasSubstr("128.5 KiB of it in use at once\n"));
  const auto place = [line](int behind) {
    return cat("memory_chart_test.cc:", line + behind, " in layers.0");
  };
  EXPECT_THAT(text, HasSubstr(cat("  4 nodes\nmost at tanh of f32[64, 256] (", place(1),
                                  "), where it is held by\n    64.5 KiB  ", place(1),
                                  ": 1 value and scratchpad of tanh\n    64.0 KiB  ", place(0),
                                  ": 1 value of broadcast\n")));
}

// A body is drawn once, at its node, on top of what lives around it.
TEST(MemoryChart, ABodyIsDrawnOnTopOfTheTensorsThatLiveAroundIt) {
  Builder b("f");
  const Value x = b.parameter("x", f32({256}));
  const Value kept = exp(x);
  const Scanned done = scan(b, {.length = 5, .carries = exp(kept), .name = "layer"},
                            [](const ScanStep& at) -> Scanned {
                              const Value wide = broadcast_in(at.carries, {16, 256}, {1});
                              return {.carries = sum(tanh(wide), {0})};
                            });
  b.result("y", Value(done.carries) + kept);
  const LocalFunction local = local_of(simplify(b.build()));  // It is not differentiated.
  const Node& loop = *std::ranges::find(local.function->nodes, Op::scan, &Node::op);
  const LocalFunction body = local_of(*loop.body);
  const MemoryPlan inner = plan_memory(body, {});
  const auto scratch = [&](const Function& f, NodeId id) {
    return f.nodes[id].op == Op::scan ? inner.arena_bytes + kKib : 0;
  };
  const MemoryPlan plan = plan_memory(local, scratch);
  // The body's function as its scan names it.
  const std::vector<PlannedPart> parts = {{loop.body.get(), &inner}, {local.function.get(), &plan}};
  const std::vector<ArenaStep> steps = arena_steps(parts);
  const auto peak = std::ranges::max(steps, {}, &ArenaStep::bytes);
  EXPECT_EQ(peak.part, 0u);
  EXPECT_EQ(peak.length, 5);
  // `kept`, the first carry, the scan's result, the carry between iterations, and the body's two.
  EXPECT_EQ(peak.bytes, 4 * kKib + 2 * 16 * kKib);
  const std::string text = memory_chart(parts);
  EXPECT_THAT(text, HasSubstr("; [N]: a loop of N, drawn once\n"));
  EXPECT_THAT(text, HasSubstr("most at tanh of f32[16, 256] "));
}

TEST(MemoryChart, AnEmptyArenaIsShownAsEmpty) {
  Builder b("f");
  b.result("y", exp(b.parameter("x", f32({4}))));
  const LocalFunction local = local_of(b.build());
  const MemoryPlan plan = plan_memory(local, {});
  EXPECT_EQ(memory_chart({{local.function.get(), &plan}}), "arena 0 B: nothing lies in it\n");
}

}  // namespace
}  // namespace gangway
