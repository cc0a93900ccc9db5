#include "ir/transforms/overlap/prefetch_gathers.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"
#include "tests/support/stored_layers.h"

namespace gangway::prefetch_gathers_test {
namespace {

const Mesh kMesh{{{"data", 2}}};

Function layers(int64_t length, bool reverse) {
  return tests::stored_layers({.length = length, .reverse = reverse}, kMesh);
}

struct Partition {
  Function local;
  std::vector<std::vector<Literal>> arguments;  // Indexed by device.
};

Partition partitioned(const Function& global) {
  const Function simple = simplify(global);
  std::vector<Sharding> parameters;
  for (const Parameter& p : simple.parameters)
    parameters.push_back(canonical(simple.mesh, resolve(simple.mesh, p.placements)));
  const Propagation found = propagate_shardings(simple, parameters);
  Partition made;
  made.local = simplify(partition(simple, found, parameters, {}).function);
  std::mt19937_64 random(tests::test_seed());
  for (int device = 0; device < 2; ++device)
    made.arguments.push_back(tests::random_arguments(random, made.local));
  return made;
}

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

std::vector<const Node*> scans(const Function& function) {
  std::vector<const Node*> found;
  for (const Node& node : function.nodes) {
    if (node.op == Op::scan) found.push_back(&node);
  }
  return found;
}

int64_t bytes(const std::vector<Traffic>& traffic) {
  int64_t sum = 0;
  for (const Traffic& node : traffic) {
    for (int64_t sent : node.sent) sum += sent;
  }
  return sum;
}

TEST(PrefetchGathers, GivesTheSameAndSendsNoMore) {
  for (const bool reverse : {false, true}) {
    for (const int64_t length : {2, 3, 5}) {
      const Partition before = partitioned(layers(length, reverse));
      const Function after = prefetch_gathers(before.local);
      SCOPED_TRACE(print(after, {.locations = false}));
      EXPECT_EQ(verify(after).size(), 0u);
      std::vector<Traffic> sent_before, sent_after;
      EXPECT_EQ(interpret_local(after, before.arguments, {.traffic = &sent_after}),
                interpret_local(before.local, before.arguments, {.traffic = &sent_before}));
      EXPECT_GT(bytes(sent_before), 0);
      EXPECT_EQ(bytes(sent_after), bytes(sent_before));
    }
  }
}

TEST(PrefetchGathers, TheNextIterationsTensorsAreGatheredAtTheBeginOfThisOne) {
  const Function after = prefetch_gathers(partitioned(layers(3, false)).local);
  ASSERT_EQ(scans(after).size(), 2u) << "forward and backward";
  EXPECT_EQ(count(after, Op::all_gather), 4) << "the first layer's, each way";
  for (const Node* scan : scans(after)) {
    const ScanLayout layout(*scan);
    EXPECT_EQ(layout.ahead, 2u);
    EXPECT_EQ(layout.next, 2u);
    EXPECT_EQ(count(*scan->body, Op::all_gather), 2);
    EXPECT_EQ(scan->body->nodes[0].op, Op::all_gather);
    const std::vector<bool> ahead = ahead_nodes(*scan->body, layout);
    for (NodeId id = 0; id < ahead.size(); ++id)
      EXPECT_EQ(ahead[id], scan->body->nodes[id].op == Op::all_gather) << id;
  }
}

Value gather(Value x, int64_t dim) {
  return x.builder().emit1(
      Op::all_gather, {x},
      {{"axes", "data"}, {"dim", dim}, {"parts", int64_t{2}}, {"size", int64_t{4}}},
      Loc::current());
}

// Two gathers of one slice, the second of a part of what the first one gave; the rest of the body
// reads that part too.
Function gathers_twice() {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f64({4, 4})), w = b.parameter("w", f64({3, 2, 4}));
  const Scanned done =
      scan(b, {.length = 3, .carries = x, .stacked = w}, [](const ScanStep& at) -> Scanned {
        const Value part = at.builder.emit1(
            Op::shard_slice, {gather(at.slices, 0)},
            {{"axis", "data"}, {"dim", int64_t{1}}, {"parts", int64_t{2}}}, Loc::current());
        return {.carries = tanh(at.carries) + gather(part, 1), .stacked = tanh(part)};
      });
  b.result("x", done.carries);
  b.result("parts", done.stacked);
  Function local = b.build();
  local.local = true;
  for (Node& node : local.nodes) {
    if (node.body == nullptr) continue;
    auto body = std::make_shared<Function>(*node.body);
    body->local = true;
    node.body = body;
  }
  return local;
}

TEST(PrefetchGathers, AnOperandOfAGatherWithOtherReadersIsComputedForBoth) {
  Partition before{.local = gathers_twice(), .arguments = {}};
  std::mt19937_64 random(tests::test_seed());
  for (int device = 0; device < 2; ++device)
    before.arguments.push_back(tests::random_arguments(random, before.local));
  before.arguments[1][0] = before.arguments[0][0];
  const Function after = prefetch_gathers(before.local);
  ASSERT_EQ(scans(after).size(), 1u);
  EXPECT_EQ(ScanLayout(*scans(after)[0]).ahead, 2u);
  ASSERT_EQ(verify(after).size(), 0u);
  EXPECT_EQ(interpret_local(after, before.arguments),
            interpret_local(before.local, before.arguments));
}

// A body that adds up so many gathered slices.
Function gathers(size_t slices) {
  Builder body("body", kMesh), b("f", kMesh);
  Value total = body.parameter("total", f64({4}));
  std::vector<Value> operands = {b.parameter("x", f64({4}))};
  const Value stored = b.parameter("stored", f64({2, 2}));
  std::vector<Value> parts;
  for (size_t i = 0; i < slices; ++i) parts.push_back(body.parameter(cat("w", i), f64({2})));
  for (const Value& part : parts) total = total + gather(part, 0);
  operands.insert(operands.end(), slices, stored);
  body.result("total", total);
  Function inner = body.build();
  inner.local = true;
  const Attrs attrs = {{"length", int64_t{2}}, {"carries", int64_t{1}}, {"invariants", int64_t{0}},
                       {"reverse", false},     {"ahead", int64_t{0}},   {"next", int64_t{0}}};
  b.result("y", b.emit(Op::scan, operands, attrs, Loc::current(),
                       std::make_shared<const Function>(std::move(inner)))[0]);
  Function local = b.build();
  local.local = true;
  return local;
}

TEST(PrefetchGathers, ALoopGetsNoMoreOperandsThanANodeMayHave) {
  EXPECT_FALSE(same_graph(prefetch_gathers(gathers(10)), gathers(10)));
  const Function local = gathers(kInputsMax / 3 + 1), after = prefetch_gathers(local);
  EXPECT_EQ(verify(after).size(), 0u);
  EXPECT_TRUE(same_graph(after, local));
}

TEST(PrefetchGathers, OneIterationHasNoNext) {
  const Partition before = partitioned(layers(1, false));
  EXPECT_TRUE(same_graph(prefetch_gathers(before.local), before.local));
}

TEST(PrefetchGathers, GathersThatDependOnTheIterationBeforeStay) {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f64({4, 4}), {{"data", shard(0)}});
  const Value w = b.parameter("w", f64({3, 4, 4}));
  b.result(
      "y",
      scan(b, {.length = 3, .carries = x, .stacked = w}, [](const ScanStep& at) -> Scanned {
        const Value whole = at.builder.shard(at.carries, {{"data", replicate()}});
        return {.carries = at.builder.shard(dot(tanh(whole), at.slices), {{"data", shard(0)}})};
      }).carries);
  const Partition before = partitioned(b.build());
  EXPECT_EQ(count(*scans(before.local)[0]->body, Op::all_gather), 1);
  EXPECT_TRUE(same_graph(prefetch_gathers(before.local), before.local));
}

TEST(PrefetchGathers, TheTextFormReadsBack) {
  const Function after = prefetch_gathers(partitioned(layers(3, true)).local);
  EXPECT_TRUE(same_graph(parse_function(print(after)), after));
}

}  // namespace
}  // namespace gangway::prefetch_gathers_test
