// The compiled size of models of programs/ is that of one layer, whatever the depth and the number
// of devices: GPT-3's shape with 64 experts in each of its 96 layers, on 2,048 devices.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/deep_program.h"
#include "controller/plans/lower.h"
#include "ir/graph/bodies.h"
#include "ir/plan/plan_wire.h"
#include "ir/transforms/memory/plan_memory.h"
#include "ir/wire/wire.h"
#include "tests/compact/counts.h"

namespace gangway::compact {
namespace {

using bench::nodes_with_bodies;

// The plan's size without its sections, whose number depends on the modelled time of a run.
size_t bytes_of(Plan plan) {
  for (LocalFunction& local : plan.functions) local.sections.resize(1);
  return to_wire(plan).size();
}

// Number of annotations; an axis of one device has none.
size_t constrains_of(const Function& function) {
  const auto count = [](const Function& one) {
    return static_cast<size_t>(std::ranges::count_if(
        one.nodes, [](const Node& node) { return node.op == Op::constrain; }));
  };
  BodyTable bodies;
  bodies.add(function);
  size_t constrains = count(function);
  for (uint32_t i = 0; i < bodies.size(); ++i) constrains += count(bodies[i]);
  return constrains;
}

// Sizes of a compiled model. Each body counts once. Annotations are not among the traced nodes.
struct Size {
  size_t traced_nodes = 0, local_nodes = 0, program_bytes = 0, plan_bytes = 0;
  int64_t arena_bytes = 0;
  Counts counts;
};

Size compile(const bench::Gpt3& model) {
  Size size;
  const Counter counter;
  const Program program = program_from_wire(to_wire(bench::gpt3(model)));
  const auto devices = static_cast<uint32_t>(program.slices[0].mesh.devices());
  CompileCache cache;
  const Plan plan = lower(program, {.slices = {{{0, 0, devices}}}, .hosts = {"host-0"}}, cache);
  const LocalFunction* step = nullptr;
  for (const LocalFunction& local : plan.functions) {
    if (step == nullptr || nodes_with_bodies(*local.function) > nodes_with_bodies(*step->function))
      step = &local;
  }
  size.arena_bytes = plan_memory(*step, {}).arena_bytes;
  size.local_nodes = nodes_with_bodies(*step->function);
  size.plan_bytes = bytes_of(plan);
  size.counts = counter.take();
  size.program_bytes = to_wire(program).size();
  for (const auto& function : program.functions)
    size.traced_nodes =
        std::max(size.traced_nodes, nodes_with_bodies(*function) - constrains_of(*function));
  return size;
}

TEST(Compact, NodesAndBytesDoNotGrowWithDevices) {
  const Size few = compile({.data = 2, .model = 2, .expert = 2}), many = compile({});
  EXPECT_EQ(many.traced_nodes, few.traced_nodes);
  EXPECT_EQ(compile({.data = 16, .model = 8, .expert = 2}).local_nodes, few.local_nodes);
  EXPECT_EQ(many.local_nodes, few.local_nodes);
  EXPECT_LE(static_cast<double>(many.plan_bytes), 1.01 * static_cast<double>(few.plan_bytes));
  // Most steps cut sections.
  EXPECT_GT(few.counts.steps, 0u);
  EXPECT_LE(static_cast<double>(many.counts.steps), 1.5 * static_cast<double>(few.counts.steps));
  EXPECT_LT(many.arena_bytes, few.arena_bytes);
  // Two devices have one axis to convert over, and not three.
  const Size two = compile({.data = 2, .model = 1, .expert = 1});
  EXPECT_EQ(many.traced_nodes, two.traced_nodes);
  EXPECT_LT(many.local_nodes, two.local_nodes + 20);
}

TEST(Compact, BytesDoNotGrowWithLayers) {
  const Size deep = compile({}), shallow = compile({.layers = 12});
  EXPECT_EQ(deep.local_nodes, shallow.local_nodes);
  EXPECT_LE(static_cast<double>(deep.program_bytes),
            1.2 * static_cast<double>(shallow.program_bytes));
  EXPECT_LE(static_cast<double>(deep.plan_bytes), 1.2 * static_cast<double>(shallow.plan_bytes));
}

TEST(Compact, CompilingTakesLittleMemory) {
  const Counts counts = compile({}).counts;
  EXPECT_GT(counts.peak_bytes, 0u);
  EXPECT_LT(counts.peak_bytes, uint64_t{200} << 20);
}

}  // namespace
}  // namespace gangway::compact
