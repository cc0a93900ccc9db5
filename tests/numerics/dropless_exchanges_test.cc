// Dropless expert parallelism exchanges rows once around a layer: they go to their experts' devices
// and come back, and so do their cotangents. Devices also exchange how many rows each expert gets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/inspect/collectives.h"
#include "ir/text/text.h"
#include "programs/models/moe.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/error_of.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

struct Model {
  int64_t devices = 2;
  bool gated = false;
  bool remat = false;
  double bound = 100;  // Room for all rows of all devices.
  int64_t tokens = 6, dim = 3, hidden = 5, layers = 3;
  int64_t groups_each = 2;  // Groups of a device.

  int64_t groups() const { return groups_each * devices; }
  programs::MoeConfig moe() const {
    return {.experts = 2 * devices,
            .top_k = 2,
            .groups = groups(),
            .capacity_factor = 0,
            .bound = bound};
  }
};

// Weights of `layers` stacked layers, cut by experts. 0: weights of one layer, not stacked.
Tree weights(Builder& b, const Model& model, int64_t layers) {
  Tree p;
  const auto weight = [&](const char* name, Dims dims, bool is_cut) {
    if (layers > 0) dims.insert(dims.begin(), layers);
    const AxisPlacements cut = {{"expert", shard(layers > 0 ? 1 : 0)}};
    p.set(name, b.parameter(name, {DType::kF64, dims}, is_cut ? cut : AxisPlacements()));
  };
  const int64_t experts = model.moe().experts;
  weight("router", {model.dim, experts}, false);
  weight("up", {experts, model.dim, model.hidden}, true);
  if (model.gated) weight("gate", {experts, model.dim, model.hidden}, true);
  weight("down", {experts, model.hidden, model.dim}, true);
  return p;
}

programs::MoeResult experts(const Model& model, const Tree& p, Value x) {
  return programs::moe(model.moe(), p, x, [](Value h) { return gelu(h); });
}

Function finished(Builder& b, Value loss, Value x, const Tree& p) {
  b.result("loss", loss);
  std::vector<Value> of = {x};
  p.for_each([&](const std::string&, const Value& w) { of.push_back(w); });
  const std::vector<Value> all = gradients(loss, of);
  b.result("dx", all[0]);
  size_t next = 1;
  p.for_each([&](const std::string& name, const Value& w) { b.result(name, w - all[next++]); });
  return b.build();
}

Value input(Builder& b, const Model& model) {
  return b.parameter("x", f64({model.groups(), model.tokens, model.dim}), {{"expert", shard(0)}});
}

// Loss and new weights of one layer, and "load": the part of its group's rows that each expert got.
Function one_layer(const Model& model) {
  Builder b("layer", Mesh{{{"expert", model.devices}}});
  const Value x = input(b, model);
  const Tree p = weights(b, model, 0);
  const programs::MoeResult result = experts(model, p, x);
  b.result("load", result.load);
  return finished(b, sum(square(result.out)) + result.balance + result.z, x, p);
}

// Loss and new weights of a scan over several layers.
Function several_layers(const Model& model) {
  Builder b("layers", Mesh{{{"expert", model.devices}}});
  const Value x = input(b, model);
  const Tree p = weights(b, model, model.layers);
  const auto layer = [&](const ScanStep& at) -> Scanned {
    const auto run = [&] { return Value(at.carries) + experts(model, at.slices, at.carries).out; };
    return {.carries = model.remat ? remat(at.builder, run) : run()};
  };
  const Value out =
      scan(b, {.length = model.layers, .carries = x, .stacked = p, .name = "layer"}, layer).carries;
  return finished(b, sum(square(out)), x, p);
}

std::vector<AxisPlacements> placed_as_weights(const Function& function) {
  std::vector<AxisPlacements> placements(function.results.size());
  for (size_t r = 0; r < placements.size(); ++r) {
    for (const Parameter& parameter : function.parameters) {
      if (parameter.name == function.result_names[r]) placements[r] = parameter.placements;
    }
  }
  return placements;
}

Compiled compiled(const Function& function) {
  return compile_function(function, {.result_placements = placed_as_weights(function)});
}

std::vector<Literal> arguments_of(const Function& function) {
  std::mt19937_64 random(gangway::tests::test_seed());
  return gangway::tests::random_arguments(random, function);
}

// The number of ragged exchanges of rows in a run. All rows are as wide as a token.
int64_t exchanges_of_rows(const Model& model, const Compiled& of) {
  int64_t times = 0;
  for (const CollectiveUse& use : collectives_of(*of.local.function)) {
    if (use.op != Op::ragged_all_to_all) continue;
    EXPECT_EQ(use.tensors.at(0).dims.at(1), model.dim);
    times += use.times;
  }
  return times;
}

TEST(DroplessExchanges, AreTwoForwardAndTwoBackward) {
  for (const int64_t devices : {2, 4}) {
    for (const bool gated : {false, true}) {
      const Model model{.devices = devices, .gated = gated};
      EXPECT_EQ(exchanges_of_rows(model, compiled(one_layer(model))), 4)
          << print(*compiled(one_layer(model)).local.function, {.locations = false});
      EXPECT_EQ(exchanges_of_rows(model, compiled(several_layers(model))), 4 * model.layers)
          << print(*compiled(several_layers(model)).local.function, {.locations = false});
    }
  }
}

// A rematerialised layer exchanges its rows again.
TEST(DroplessExchanges, AreTwoMoreWhereALayerIsRematerialised) {
  const Model model{.gated = true, .remat = true};
  EXPECT_EQ(exchanges_of_rows(model, compiled(several_layers(model))), 6 * model.layers);
}

TEST(DroplessExchanges, ComputeWhatOneDeviceDoes) {
  for (const int64_t devices : {2, 3}) {
    for (const bool gated : {false, true}) {
      const Model model{.devices = devices, .gated = gated, .remat = devices == 3};
      for (const Function& function : {one_layer(model), several_layers(model)}) {
        const auto arguments = arguments_of(function);
        EXPECT_LT(relative_difference(interpret_compiled(compiled(function), arguments),
                                      interpret(function, arguments)),
                  1e-12)
            << devices << " devices, " << function.name;
      }
    }
  }
}

// The number of times that a device moves rows to other places of its own. If it has several
// groups, it sorts rows by expert before an exchange and sorts them back behind it.
int64_t moves_of_rows(const Function& local) {
  return std::ranges::count_if(local.nodes, [](const Node& node) {
    return node.op == Op::moe_dispatch || node.op == Op::moe_combine;
  });
}

TEST(DroplessExchanges, SendRowsAsTheyLieWhereADeviceHasOneGroup) {
  for (const int64_t devices : {2, 3}) {
    const Model one{.devices = devices, .gated = true, .groups_each = 1};
    const Model two{.devices = devices, .gated = true, .groups_each = 2};
    const int64_t sorted = exchanges_of_rows(two, compiled(one_layer(two)));
    EXPECT_EQ(moves_of_rows(*compiled(one_layer(one)).local.function),
              moves_of_rows(*compiled(one_layer(two)).local.function) - sorted)
        << print(*compiled(one_layer(one)).local.function, {.locations = false});
    for (const Function& function : {one_layer(one), several_layers(one)}) {
      const auto arguments = arguments_of(function);
      EXPECT_LT(relative_difference(interpret_compiled(compiled(function), arguments),
                                    interpret(function, arguments)),
                1e-12)
          << devices << " devices, " << function.name;
    }
  }
}

// Between the products stand a value that all rows share (bias), one of which each row has its own
// (mask), and one that is also a result (here).
TEST(DroplessExchanges, ComputeWhatOneDeviceDoesWithWhatIsDoneBetweenProducts) {
  const Model model{.devices = 2};
  Builder b("between", Mesh{{{"expert", model.devices}}});
  const Value x = input(b, model);
  Tree p = weights(b, model, 0);
  const Dims hidden = {model.groups(), model.tokens * model.moe().top_k, model.hidden};
  const Value bias = b.parameter("bias", f64({model.hidden}));
  const Value mask = b.parameter("mask", f64(hidden), {{"expert", shard(0)}});
  const programs::MoeResult result = programs::moe(model.moe(), p, x, [&](Value h) {
    const Value each = gelu(h + broadcast_in(bias, hidden, {2})) * 0.5;
    b.result("here", each);
    return each * mask + exp(h);
  });
  p.set("bias", bias);
  p.set("mask", mask);
  const Function function = finished(b, sum(square(result.out)), x, p);
  const auto arguments = arguments_of(function);
  EXPECT_LT(relative_difference(interpret_compiled(compiled(function), arguments),
                                interpret(function, arguments)),
            1e-12);
}

// Rows of tokens without an expert are zeros behind a product, and may be anything behind the ops
// after it. Comparisons give no float.
TEST(DroplessExchanges, ComputeWhatOneDeviceDoesOfRowsOfNoExpert) {
  const Model model{.devices = 2};
  const int64_t chosen = model.moe().top_k, experts = model.moe().experts;
  Builder b("no_expert", Mesh{{{"expert", model.devices}}});
  const AxisPlacements cut = {{"expert", shard(0)}};
  const Value x = input(b, model);
  const Value expert =
      b.parameter("expert", {DType::kI32, {model.groups(), model.tokens, chosen}}, cut);
  const Value gate = b.parameter("gate", f64({model.groups(), model.tokens, chosen}), cut);
  Tree p;
  p.set("up", b.parameter("up", f64({experts, model.dim, model.hidden}), cut));
  p.set("down", b.parameter("down", f64({experts, model.hidden, model.dim}), cut));
  Route route = moe_route(expert, experts);
  route.bound = model.bound;
  const Value h = grouped_dot(moe_dispatch(x, route), p["up"], route);
  const Value positive = gt(h, 0.0);
  b.result("ones", sum(exp(h)));
  b.result("positive", sum(convert(positive, DType::kF64)));
  const Value rectified = maximum(h, 0.0) + where(positive, h * exp(h), h - h);
  const Value out = moe_combine(grouped_dot(rectified + cos(h), p["down"], route), gate, route);
  const Function function = finished(b, sum(square(out)), x, p);
  std::vector<Literal> arguments = arguments_of(function);
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    if (function.parameters[i].name != "expert") continue;
    std::vector<double>& values = arguments[i].values;
    for (size_t at = 0; at < values.size(); ++at)
      values[at] = static_cast<double>(static_cast<int64_t>(3 * at) % (experts + 1) - 1);
  }
  EXPECT_LT(relative_difference(interpret_compiled(compiled(function), arguments),
                                interpret(function, arguments)),
            1e-12);
}

TEST(DroplessExchanges, ComputeWhatOneDeviceDoesOfMoreRowsThanThereAre) {
  for (const int64_t groups_each : {1, 2}) {
    const Model model{.devices = 2, .groups_each = groups_each};
    const int64_t experts = model.moe().experts;
    Builder b("numbers", Mesh{{{"expert", model.devices}}});
    const AxisPlacements cut = {{"expert", shard(0)}};
    const Value x = input(b, model);
    const Route route = {.sizes = b.parameter("sizes", i32({model.groups(), experts}), cut),
                         .bound = model.bound};
    Tree p;
    p.set("up", b.parameter("up", f64({experts, model.dim, model.hidden}), cut));
    const Function function = finished(b, sum(square(grouped_dot(x, p["up"], route))), x, p);
    std::vector<Literal> arguments = arguments_of(function);
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      if (function.parameters[i].name != "sizes") continue;
      std::vector<double>& values = arguments[i].values;
      for (size_t at = 0; at < values.size(); ++at)
        values[at] = static_cast<double>((2 * at + 1) % 5);  // Up to 10 of 6 rows.
    }
    EXPECT_LT(relative_difference(interpret_compiled(compiled(function), arguments),
                                  interpret(function, arguments)),
              1e-12)
        << groups_each << " groups of a device";
  }
}

// A device sends each row whose expert is elsewhere there, forward its activation and backward its
// cotangent, and each device sends back the rows that it was sent.
TEST(DroplessExchanges, SendTheRowsThatWereRoutedElsewhereAndNoOthers) {
  const Model model{.devices = 3, .gated = true};
  const Function function = one_layer(model);
  const auto arguments = arguments_of(function);
  const Literal load = interpret(function, arguments).at(0);
  const auto devices = static_cast<size_t>(model.devices);
  const auto many = static_cast<size_t>(model.moe().experts);
  const double routed = static_cast<double>(model.tokens * model.moe().top_k);
  std::vector<int64_t> expected(devices, 4 * 4 * (model.devices - 1));  // Bytes of the sizes.
  for (size_t at = 0; at < load.values.size(); ++at) {
    const auto rows = static_cast<int64_t>(std::lround(load.values[at] * routed));
    const size_t from = at / many / 2, to = at % many / 2;  // A device has two groups and experts.
    if (from == to) continue;
    for (const size_t device : {from, to}) expected[device] += 2 * rows * model.dim * 8;
  }
  const Compiled of = compiled(function);
  const Function& local = *of.local.function;
  std::vector<Traffic> traffic;
  interpret_local(local, cut(local.mesh, of.parameter_shardings, arguments), {.traffic = &traffic});
  std::vector<int64_t> sent(devices, 0);
  for (const Traffic& at : traffic) {
    if (local.nodes[at.node].op != Op::ragged_all_to_all) continue;
    for (size_t device = 0; device < devices; ++device) sent[device] += at.sent[device];
  }
  EXPECT_EQ(sent, expected);
}

TEST(DroplessExchanges, MoreRowsThanThereIsRoomForAreAnError) {
  const Model model{.gated = true, .bound = 0};
  for (const Function& function : {one_layer(model), several_layers(model)}) {
    const Compiled of = compiled(function);
    const Error error = error_of([&] { interpret_compiled(of, arguments_of(function)); });
    EXPECT_EQ(error.kind(), ErrorKind::kOverflow) << error.what();
  }
}

}  // namespace
}  // namespace gangway::numerics
