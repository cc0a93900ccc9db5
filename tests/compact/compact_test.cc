// A graph is as large as one layer, whatever the depth and the number of devices: GPT-3's shape
// with 64 experts in each of its 96 layers, on 2,048 devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/deep_program.h"
#include "controller/lowering/lower.h"
#include "ir/graph/bodies.h"
#include "ir/plan/plan_wire.h"
#include "ir/transforms/memory/plan_memory.h"
#include "ir/wire/wire.h"
#include "tests/compact/counts.h"

namespace gangway::compact {
namespace {

size_t nodes_of(const Function& function) {
  BodyTable bodies;
  bodies.add(function);
  size_t nodes = function.nodes.size();
  for (uint32_t i = 0; i < bodies.size(); ++i) nodes += bodies[i].nodes.size();
  return nodes;
}

// Without its sections, of which there are as many as the modelled time of a run asks for.
size_t bytes_of(Plan plan) {
  for (LocalFunction& local : plan.functions) local.sections.resize(1);
  return to_wire(plan).size();
}

// What becomes of a model: each body counts once.
struct Size {
  size_t traced_nodes = 0, local_nodes = 0, program_bytes = 0, plan_bytes = 0;
  int64_t arena_bytes = 0;
  Counts counts;
};

Size compile(const bench::DeepProgram& model) {
  Size size;
  const Counter counter;
  const Program program = program_from_wire(to_wire(bench::trace(model)));
  const auto devices = static_cast<uint32_t>(model.mesh.devices());
  CompileCache cache;
  const Plan plan = lower(program, {.slices = {{{0, 0, devices}}}, .hosts = {"host-0"}}, cache);
  const LocalFunction* step = nullptr;
  for (const LocalFunction& local : plan.functions) {
    if (step == nullptr || nodes_of(*local.function) > nodes_of(*step->function)) step = &local;
  }
  size.arena_bytes = plan_memory(*step, {}).arena_bytes;
  size.local_nodes = nodes_of(*step->function);
  size.plan_bytes = bytes_of(plan);
  size.counts = counter.take();
  size.program_bytes = to_wire(program).size();
  for (const auto& function : program.functions)
    size.traced_nodes = std::max(size.traced_nodes, nodes_of(*function));
  return size;
}

TEST(Compact, NodesAndBytesDoNotGrowWithDevices) {
  const Size few = compile(bench::gpt3(2, 2, 2)), many = compile(bench::gpt3(16, 8, 16));
  EXPECT_EQ(many.traced_nodes, few.traced_nodes);
  EXPECT_EQ(many.local_nodes, few.local_nodes);
  EXPECT_LE(static_cast<double>(many.plan_bytes), 1.01 * static_cast<double>(few.plan_bytes));
  // Most of it goes into cutting sections.
  EXPECT_LE(static_cast<double>(many.counts.steps), 1.5 * static_cast<double>(few.counts.steps));
  EXPECT_LT(many.arena_bytes, few.arena_bytes);
  // Two devices have one axis to convert over, and not three.
  const Size two = compile(bench::gpt3(2, 1, 1));
  EXPECT_EQ(many.traced_nodes, two.traced_nodes);
  EXPECT_LT(many.local_nodes, two.local_nodes + 20);
}

TEST(Compact, BytesDoNotGrowWithLayers) {
  bench::DeepProgram model = bench::gpt3(16, 8, 16);
  const Size deep = compile(model);
  model.layers = 12;
  const Size shallow = compile(model);
  EXPECT_EQ(deep.local_nodes, shallow.local_nodes);
  EXPECT_LE(static_cast<double>(deep.program_bytes),
            1.2 * static_cast<double>(shallow.program_bytes));
  EXPECT_LE(static_cast<double>(deep.plan_bytes), 1.2 * static_cast<double>(shallow.plan_bytes));
}

TEST(Compact, CompilingTakesLittleMemory) {
  EXPECT_LT(compile(bench::gpt3(16, 8, 16)).counts.peak_bytes, uint64_t{200} << 20);
}

}  // namespace
}  // namespace gangway::compact
