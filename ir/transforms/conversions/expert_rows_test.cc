// Rows of dropless experts between loops that users write themselves; those of models and of their
// gradients are in tests/numerics/dropless_exchanges_test.cc.
#include "ir/transforms/conversions/expert_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/scan.h"
#include "ir/inspect/collectives.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"

namespace gangway::expert_rows_test {
namespace {

constexpr int64_t kLayers = 3, kTokens = 4, kDim = 3, kHidden = 5, kExperts = 4;

// Each negates what the one before gave.
Value chain(Value value, int nodes) {
  for (int i = 0; i < nodes; ++i) value = neg(value);
  return value;
}

Route route_of(const Value& expert) {
  Route route = moe_route(expert, kExperts);
  route.bound = 2;
  return route;
}

enum class Routed : uint8_t { kByTheFirst, kBefore, kAnew };

// One loop gives the first products of experts, another takes them and scales each row in a chain
// of so many nodes. Which rows go where is found in the first loop, before both, or in each.
Function two_loops(Routed routed, int nodes) {
  Builder b("loops", Mesh{{{"expert", 2}}});
  const AxisPlacements cut = {{"expert", shard(0)}};
  const auto weight = [&](const char* name, Dims dims) {
    return b.parameter(name, f32(std::move(dims)), {{"expert", shard(1)}});
  };
  Tree given, up, down;
  given.set("x", b.parameter("x", f32({2, kTokens, kDim}), cut));
  given.set("gate", b.parameter("gate", f32({2, kTokens, 1}), cut));
  given.set("expert", b.parameter("expert", i32({2, kTokens, 1}), cut));
  const auto with_route = [](Tree tree, const Route& route) {
    tree.set("slot_token", route.slot_token);
    tree.set("token_slot", route.token_slot);
    tree.set("sizes", route.sizes);
    return tree;
  };
  const auto route_in = [](const Tree& tree) {
    return Route{.slot_token = tree["slot_token"],
                 .token_slot = tree["token_slot"],
                 .sizes = tree["sizes"],
                 .bound = 2};
  };
  if (routed == Routed::kBefore) given = with_route(given, route_of(given["expert"]));
  up.set("w", weight("up", {kLayers, kExperts, kDim, kHidden}));
  const Scanned first = scan(
      b, {.length = kLayers, .carries = given["x"], .invariants = given, .stacked = up},
      [&](const ScanStep& at) -> Scanned {
        const bool is_known = routed == Routed::kBefore;
        const Route route = is_known ? route_in(at.invariants) : route_of(at.invariants["expert"]);
        Tree stacked;
        stacked.set("rows",
                    grouped_dot(moe_dispatch(at.invariants["x"], route), at.slices["w"], route));
        if (routed == Routed::kByTheFirst) stacked = with_route(stacked, route);
        return {.carries = at.carries, .stacked = stacked};
      });
  down = first.stacked;
  down.set("w", weight("down", {kLayers, kExperts, kHidden, kDim}));
  const Scanned second = scan(
      b, {.length = kLayers, .carries = first.carries, .invariants = given, .stacked = down},
      [&](const ScanStep& at) -> Scanned {
        const Route route = routed == Routed::kByTheFirst ? route_in(at.slices)
                            : routed == Routed::kBefore   ? route_in(at.invariants)
                                                          : route_of(neg(at.invariants["expert"]));
        const Value rows = at.slices["rows"];
        const Value scale = chain(at.builder.constant(rows.type(), 2.0), nodes);
        const Value out = grouped_dot(rows * scale, at.slices["w"], route);
        return {.carries = Value(at.carries) + moe_combine(out, at.invariants["gate"], route)};
      });
  b.result("y", second.carries);
  return b.build();
}

// Two products of experts with a tanh between them, perhaps of all groups' rows in one list, on a
// device that has so many groups.
Function one_layer(int64_t groups_each, bool in_one_list = false) {
  Builder b("layer", Mesh{{{"expert", 2}}});
  const AxisPlacements cut = {{"expert", shard(0)}};
  const int64_t groups = 2 * groups_each;
  const Value x = b.parameter("x", f32({groups, kTokens, kDim}), cut);
  const Value gate = b.parameter("gate", f32({groups, kTokens, 1}), cut);
  const Route route = route_of(b.parameter("expert", i32({groups, kTokens, 1}), cut));
  const Value up = b.parameter("up", f32({kExperts, kDim, kHidden}), cut);
  const Value down = b.parameter("down", f32({kExperts, kHidden, kDim}), cut);
  Value hidden = grouped_dot(moe_dispatch(x, route), up, route);
  const Dims dims = hidden.type().dims;
  if (in_one_list) hidden = reshape(hidden, {dims[0] * dims[1], dims[2]});
  hidden = tanh(hidden);
  if (in_one_list) hidden = reshape(hidden, dims);
  b.result("y", moe_combine(grouped_dot(hidden, down, route), gate, route));
  return b.build();
}

Function local_of(const Function& global) {
  const Function simple = simplify(global);
  std::vector<Sharding> parameters;
  for (const Parameter& p : simple.parameters)
    parameters.push_back(canonical(simple.mesh, resolve(simple.mesh, p.placements)));
  const Propagation found = propagate_shardings(simple, parameters);
  Function local = simplify(partition(simple, found, parameters, {}).function);
  require_valid(local);
  return local;
}

int64_t exchanges_of_rows(const Function& global) {
  int64_t times = 0;
  for (const CollectiveUse& use : collectives_of(local_of(global)))
    times += use.op == Op::ragged_all_to_all ? use.times : 0;
  return times;
}

TEST(ExpertRows, StayThereWhereAReshapeLeavesThemWhole) {
  EXPECT_EQ(exchanges_of_rows(one_layer(1, true)), 2);
  EXPECT_EQ(exchanges_of_rows(one_layer(2, true)), 2);
}

// Besides its own dispatch and combine a layer moves rows by expert behind the exchange there, and
// back before the other; with several groups on a device also before the one and behind the other.
TEST(ExpertRows, GoThereOnceAndComeBackOnce) {
  for (const int64_t groups_each : {1, 2}) {
    const Function local = local_of(one_layer(groups_each));
    const auto count = [&](Op op) { return std::ranges::count(local.nodes, op, &Node::op); };
    EXPECT_EQ(count(Op::ragged_all_to_all), 2);
    EXPECT_EQ(count(Op::all_to_all), 1) << "of how many rows come";
    EXPECT_EQ(count(Op::moe_dispatch), groups_each == 1 ? 2 : 3);
    EXPECT_EQ(count(Op::moe_combine), groups_each == 1 ? 2 : 3);
    EXPECT_EQ(count(Op::tanh), 1);
    const Type there = {DType::kF32, {1, 2 * groups_each * kTokens, kHidden}};
    EXPECT_EQ(std::ranges::count(local.types, there), 2) << "a product and its tanh, there";
  }
}

TEST(ExpertRows, StayThereFromLoopToLoop) {
  const int64_t there_in_one_and_back_in_the_other = 2 * kLayers;
  EXPECT_EQ(exchanges_of_rows(two_loops(Routed::kByTheFirst, 2)),
            there_in_one_and_back_in_the_other);
  EXPECT_EQ(exchanges_of_rows(two_loops(Routed::kBefore, 2)), there_in_one_and_back_in_the_other);
}

TEST(ExpertRows, StayThereHoweverLongWhatScalesThemIsComputed) {
  EXPECT_EQ(exchanges_of_rows(two_loops(Routed::kByTheFirst, 30'000)), 2 * kLayers);
}

TEST(ExpertRows, ThatAreRoutedOtherwiseAreSentAnew) {
  EXPECT_EQ(exchanges_of_rows(two_loops(Routed::kAnew, 2)), 4 * kLayers);
}

TEST(ExpertRows, ADeviceHasRoomForTimesItsOwnRowsAndAtMostForAll) {
  EXPECT_EQ(rows_bound(2, 5, 4), 10);
  EXPECT_EQ(rows_bound(1.1, 5, 4), 6) << "rounded up";
  EXPECT_EQ(rows_bound(100, 5, 4), 20) << "all rows";
  EXPECT_EQ(rows_bound(0, 5, 4), 1) << "at least one";
}

}  // namespace
}  // namespace gangway::expert_rows_test
