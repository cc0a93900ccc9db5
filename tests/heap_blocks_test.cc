// What a run asks of the heap on the reactor's thread.
#include <gtest/gtest.h>

#include "tests/support/heap_count.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr PlanId kPlan{1};

// y = the sum of all inputs, each cut over two devices.
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

// Of the run after the first, from the request to where its devices go on alone.
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

}  // namespace
}  // namespace gangway
