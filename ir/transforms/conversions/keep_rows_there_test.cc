// Rows of dropless experts between loops that users write themselves; those of models and of their
// gradients are in tests/numerics/dropless_exchanges_test.cc.
#include "ir/transforms/conversions/keep_rows_there.h"

#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/inspect/collectives.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"

namespace gangway::keep_rows_there_test {
namespace {

constexpr int64_t kLayers = 3, kTokens = 4, kDim = 3, kHidden = 5, kExperts = 4;

// Each negates what the one before gave.
Value chain(Value value, int nodes) {
  for (int i = 0; i < nodes; ++i) value = neg(value);
  return value;
}

Route route_of(const Value& expert, int nodes) {
  Route route = moe_route(chain(expert, nodes), kExperts);
  route.bound = 2;
  return route;
}

// One loop gives the first products of experts, another takes them; each computes for itself, in
// chains of so many nodes, which rows go where, and what is done with each row.
Function two_loops(int nodes) {
  Builder b("loops", Mesh{{{"expert", 2}}});
  const AxisPlacements cut = {{"expert", shard(0)}};
  const auto weight = [&](const char* name, Dims dims) {
    return b.parameter(name, f32(std::move(dims)), {{"expert", shard(1)}});
  };
  Tree given, up, down;
  given.set("x", b.parameter("x", f32({2, kTokens, kDim}), cut));
  given.set("gate", b.parameter("gate", f32({2, kTokens, 1}), cut));
  given.set("expert", b.parameter("expert", i32({2, kTokens, 1}), cut));
  up.set("w", weight("up", {kLayers, kExperts, kDim, kHidden}));
  const Scanned first =
      scan(b, {.length = kLayers, .carries = given["x"], .invariants = given, .stacked = up},
           [&](const ScanStep& at) -> Scanned {
             const Route route = route_of(at.invariants["expert"], nodes);
             const Value rows = moe_dispatch(at.invariants["x"], route);
             return {.carries = at.carries, .stacked = grouped_dot(rows, at.slices["w"], route)};
           });
  down.set("w", weight("down", {kLayers, kExperts, kHidden, kDim}));
  down.set("rows", first.stacked);
  const Scanned second =
      scan(b, {.length = kLayers, .carries = first.carries, .invariants = given, .stacked = down},
           [&](const ScanStep& at) -> Scanned {
             const Route route = route_of(at.invariants["expert"], nodes);
             const Value rows = at.slices["rows"];
             const Value scale = chain(at.builder.constant(rows.type(), 2.0), nodes);
             const Value out = grouped_dot(rows * scale, at.slices["w"], route);
             return {.carries = Value(at.carries) + moe_combine(out, at.invariants["gate"], route)};
           });
  b.result("y", second.carries);
  return b.build();
}

int64_t exchanges_of_rows(const Function& global) {
  const Function simple = simplify(global);
  std::vector<Sharding> parameters;
  for (const Parameter& p : simple.parameters)
    parameters.push_back(canonical(simple.mesh, resolve(simple.mesh, p.placements)));
  const Propagation found = propagate_shardings(simple, parameters);
  const Function local = simplify(partition(simple, found, parameters, {}).function);
  int64_t times = 0;
  for (const CollectiveUse& use : collectives_of(keep_rows_there(local)))
    times += use.op == Op::ragged_all_to_all ? use.times : 0;
  return times;
}

TEST(KeepRowsThere, RowsStayThereFromLoopToLoopHoweverLongTheirRoutingIsComputed) {
  EXPECT_EQ(exchanges_of_rows(two_loops(2)), 2 * kLayers) << "there in one, back in the other";
  EXPECT_EQ(exchanges_of_rows(two_loops(30'000)), 2 * kLayers);
}

TEST(KeepRowsThere, RowsThatAreRoutedOtherwiseAreSentAnew) {
  const Function alike = two_loops(2);
  Function other = alike;
  for (Node& node : other.nodes) {
    if (node.op != Op::scan || node.inputs[0] < other.parameters.size()) continue;
    auto body = std::make_shared<Function>(*node.body);
    for (Node& inner : body->nodes) {  // The second loop takes the numbers of experts as they are.
      if (inner.op == Op::neg && body->types[inner.first_result].dtype == DType::kI32)
        inner.op = Op::abs;
    }
    node.body = body;
  }
  EXPECT_EQ(exchanges_of_rows(other), 4 * kLayers);
}

}  // namespace
}  // namespace gangway::keep_rows_there_test
