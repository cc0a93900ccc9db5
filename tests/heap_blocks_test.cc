// Counts the heap blocks that a run allocates on the reactor's thread, and that a kernel allocates
// on a device's thread.
#include <gtest/gtest.h>

#include "executor/devices/cpu/kernel.h"
#include "ir/text/text.h"
#include "tests/support/heap_count.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr PlanId kPlan{1};

// y = the sum of all inputs. Each is cut over two devices.
std::shared_ptr<const Plan> sum_of(uint32_t inputs) {
  const Type type = f32({4, 8});
  TestPlan t("sum of arrays", 1, 2);
  Builder b("sum", t.mesh());
  std::vector<Value> parts;
  for (uint32_t i = 0; i < inputs; ++i)
    parts.push_back(b.parameter(cat("x", i), type, {{"data", shard(0)}}));
  Value y = parts[0];
  for (uint32_t i = 1; i < inputs; ++i) y = y + parts[i];
  b.result("y", y);
  std::vector<uint32_t> given;
  for (uint32_t i = 0; i < inputs; ++i) given.push_back(t.input(cat("x", i), type, {shard(0)}));
  const uint32_t function = t.function(b.build());
  t.call("sum", function, given, {t.output("y", type, {shard(0)})});
  return t.share();
}

// Heap blocks of the second run, from the request until its devices go on alone.
int64_t blocks_of_a_run(uint32_t inputs) {
  const auto reactor = Reactor::make_real();
  TestHosts t(*reactor, 1, 2);
  t.install(kPlan, sum_of(inputs));
  RunFrame request{.plan = kPlan};
  for (uint32_t i = 0; i < inputs; ++i) {
    t.put<float>(ArrayId(1 + i), kPlan, i, std::vector<float>(32, 1.0f));
    request.arguments.push_back({i, ArrayId(1 + i), {}});
  }
  int64_t count = 0;
  for (uint64_t run = 1; run <= 2; ++run) {
    request.run = RunId(run);
    request.outputs = {ArrayId(1000 + run)};
    const int64_t before = heap_blocks_of_thread();
    t.start(request);
    count = heap_blocks_of_thread() - before;
    EXPECT_FALSE(t.wait(RunId(run)).error);
  }
  EXPECT_EQ(t.get<float>(ArrayId(1002), 32), std::vector<float>(32, static_cast<float>(inputs)));
  return count;
}

TEST(HeapBlocks, AStepThatIsGivenSixtyArraysAsksTheHeapForNoMoreThanOneThatIsGivenTwo) {
  const int64_t two = blocks_of_a_run(2);
  EXPECT_GT(two, 0) << "nothing was counted";
  EXPECT_EQ(blocks_of_a_run(60), two);
}

// The kernel draws a part of a tensor. The part's rows lie apart in the whole.
TEST(HeapBlocks, AKernelThatDrawsAsksTheHeapForNothing) {
  const Function f = parse_function(R"gw(
local func @f(%0 "key": i32[2]) mesh {data: 2} {
  %1: f32[6, 4, 5] = random_uniform %0
    {dims = [6, 4, 5], dtype = f32, placements = "data: shard(1)", whole = [6, 8, 5]}
  return %1 "y"
}
)gw",
                                    "draws.gw");
  const cpu::Lowered lowered = cpu::lower(cpu::LowerCall{{f, 0}, 1});
  std::vector<uint32_t> key = {7, 9};
  std::vector<float> y(120), first;
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(key.data()),
                              reinterpret_cast<std::byte*>(y.data())};
  const Address addresses[] = {{0, 0}, {1, 0}};
  Parallel par(1);
  for (const uint32_t device : {0u, 1u}) {
    const int64_t before = heap_blocks_of_thread();
    lowered.kernel({par, bases, addresses, addresses + 1, {}, device});
    EXPECT_EQ(heap_blocks_of_thread(), before);
    if (device == 0) first = y;
  }
  EXPECT_NE(first, y);
}

}  // namespace
}  // namespace gangway
