// Converts every sharding to every other, with all orders of cuts and all reductions. The steps of
// a conversion are applied to parts that hold their own index, on all devices in lockstep.
//
// GW_PAIRS: number of pairs that the seed draws for each mesh and tensor; all pairs if there are no
// more.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ir/transforms/conversions/plan_conversion.h"
#include "runtime/base/error.h"
#include "tests/conversions/brute_force.h"
#include "tests/conversions/converting_function.h"
#include "tests/conversions/held_parts.h"
#include "tests/interpret/interpret.h"
#include "tests/support/seed.h"

namespace gangway::tests {
namespace {

const Mesh kTwo{{{"a", 2}}};
const Mesh kTwoByThree{{{"a", 2}, {"b", 3}}};
const Mesh kFourByTwo{{{"a", 4}, {"b", 2}}};
const Mesh kCube{{{"a", 2}, {"b", 2}, {"c", 2}}};

// A collective's latency outweighs bytes, bytes outweigh latency, or each axis has other links.
std::vector<ConversionCosts> all_costs(size_t axes) {
  std::vector<ConversionCosts> all;
  all.push_back({.launch_ps = 1'000, .latency_ps = 1'000'000});
  all.push_back({.launch_ps = 10, .latency_ps = 1'000});
  all.push_back({.launch_ps = 100, .latency_ps = 20'000});
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t axis = 0; axis < axes; ++axis)
      all[i].link_ps_per_byte.push_back(i == 2 ? 1'000 >> (3 * axis) : 100);
  }
  return all;
}

// The reference interpreter gives the same results; the elements that each step reads from other
// devices are those that the plan says it sends.
void expect_interprets(const Type& type, const Mesh& mesh, const Sharding& from, const Sharding& to,
                       const ConversionPath& path) {
  const Function local = converting_function("f", type, mesh, from, path.steps);
  const HeldAs begin(type, mesh, from);
  std::vector<std::vector<Literal>> arguments;
  for (const HeldPart& part : begin.parts())
    arguments.push_back({{local.types[0], {part.elements.begin(), part.elements.end()}}});
  std::vector<Traffic> traffic;
  HeldParts parts;
  for (const auto& results : interpret_local(local, arguments, {.traffic = &traffic})) {
    const Literal& held = results.at(0);
    parts.push_back({held.type.dims, {held.values.begin(), held.values.end()}});
  }
  ASSERT_TRUE(HeldAs(type, mesh, to).fits(parts, begin.whole()));
  ASSERT_EQ(traffic.size(), path.steps.size());
  for (size_t i = 0; i < traffic.size(); ++i)
    ASSERT_EQ(std::ranges::max(traffic[i].sent), path.steps[i].bytes) << "step " << i;
}

// Does the steps one after another, and compares their results, sent elements and costs with the
// plan.
void expect_converts(const Type& type, const Mesh& mesh, const Sharding& from, const Sharding& to,
                     const ConversionPath& path, const ConversionCosts& costs) {
  const HeldAs begin(type, mesh, from);
  const std::vector<int64_t> whole = begin.whole();
  HeldParts parts = begin.parts();
  int64_t cost = 0;
  for (const ConversionStep& step : path.steps) {
    SCOPED_TRACE(cat(to_string(step.op), " to ", to_string(mesh, step.after)));
    const std::optional<AfterOp> after = apply(mesh, step.op, step.attrs, parts);
    ASSERT_TRUE(after.has_value()) << "attributes that do not fit";
    parts = after->parts;
    ASSERT_TRUE(HeldAs(type, mesh, step.after).fits(parts, whole)) << "not what `after` says";
    ASSERT_EQ(after->elements_sent * static_cast<int64_t>(size_of(type.dtype)), step.bytes);
    const bool is_local = step.op == Op::shard_slice || step.op == Op::keep_first;
    int64_t slowest = 0;
    for (const int axis : step.axes)
      slowest = std::max(slowest, costs.link_ps_per_byte[static_cast<size_t>(axis)]);
    cost += is_local ? costs.launch_ps : costs.latency_ps + step.bytes * slowest;
  }
  ASSERT_TRUE(HeldAs(type, mesh, to).fits(parts, whole));
  ASSERT_EQ(cost, path.cost_ps);
}

void expect_all_pairs(const Mesh& mesh, const Type& type) {
  const std::vector<Sharding> shardings = all_shardings(mesh, type.rank());
  const BruteForce brute_force(type, mesh, shardings);
  const std::vector<ConversionCosts> costs = all_costs(mesh.axes.size());
  std::vector<size_t> pairs(shardings.size() * shardings.size());
  std::iota(pairs.begin(), pairs.end(), 0);
  std::mt19937_64 random(test_seed());
  std::ranges::shuffle(pairs, random);
  pairs.resize(std::min(pairs.size(), size_t{GW_PAIRS}));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t from = pairs[i] / shardings.size(), to = pairs[i] % shardings.size();
    const ConversionCosts& cost = costs[i % costs.size()];
    SCOPED_TRACE(cat(to_string(type), " over ", to_string(mesh), ": ",
                     to_string(mesh, shardings[from]), " -> ", to_string(mesh, shardings[to])));
    ConversionPlanner planner(mesh, cost);
    const ConversionPath& path = planner.plan(type, shardings[from], shardings[to]);
    ASSERT_NO_FATAL_FAILURE(
        expect_converts(type, mesh, shardings[from], shardings[to], path, cost));
    ASSERT_NO_FATAL_FAILURE(expect_interprets(type, mesh, shardings[from], shardings[to], path));
    ASSERT_EQ(path.cost_ps, brute_force.least_cost(from, to, cost));
  }
}

TEST(Conversions, AllPairsOfShardingsConvertOnTwoDevices) {
  expect_all_pairs(kTwo, f64({4, 6}));
  expect_all_pairs(kTwo, f64({4, 2, 6}));
}
TEST(Conversions, AllPairsOfShardingsConvertOnTwoDevicesInUnevenParts) {
  expect_all_pairs(kTwo, f64({5, 3}));
}

TEST(Conversions, AllPairsOfShardingsConvertOnTwoByThreeDevices) {
  expect_all_pairs(kTwoByThree, f64({6, 12}));
}
TEST(Conversions, AllPairsOfShardingsConvertOnTwoByThreeDevicesInUnevenParts) {
  expect_all_pairs(kTwoByThree, f64({7, 10}));
}

TEST(Conversions, AllPairsOfShardingsConvertOnFourByTwoDevices) {
  expect_all_pairs(kFourByTwo, f64({8, 16}));
}
TEST(Conversions, AllPairsOfShardingsConvertOnFourByTwoDevicesInUnevenParts) {
  expect_all_pairs(kFourByTwo, f64({9, 11}));
}

TEST(Conversions, AllPairsOfShardingsConvertOnACubeOfDevices) {
  expect_all_pairs(kCube, f64({8, 8}));
}
TEST(Conversions, AllPairsOfShardingsConvertOnACubeOfDevicesInUnevenParts) {
  expect_all_pairs(kCube, f64({5, 7}));
}

}  // namespace
}  // namespace gangway::tests
