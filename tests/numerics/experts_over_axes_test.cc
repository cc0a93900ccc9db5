// Expert parallelism with a capacity (GShard, Lepikhin et al. 2020; Switch Transformer, Fedus et
// al. 2021): tokens cut by groups, experts' weights by experts, on one axis. Nothing in the model
// knows of it: rows go to their experts and back because producer and consumer are cut differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "programs/models/moe.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

const AxisPlacements kByExpert = {{"expert", shard(0)}};

struct Sizes {
  int64_t data, expert;  // The mesh.
  int64_t groups, tokens, dim, hidden;
  programs::MoeConfig moe;
  bool gated = false;

  Mesh mesh() const { return {{{"data", data}, {"expert", expert}}}; }
  int64_t slots() const { return moe.experts * programs::capacity_of(moe, tokens); }
  // What a device sends when its groups' rows go from one side to the other: E C d (n - 1) / n for
  // each group.
  int64_t bytes_of_an_exchange() const {
    const int64_t local_groups = groups / (data * expert);
    return local_groups * slots() * dim * 8 * (expert - 1) / expert;
  }
};

Sizes random_sizes(std::mt19937_64& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  Sizes s{.data = 1 + below(2),
          .expert = 2 + below(2),
          .groups = 0,
          .tokens = 2 + below(5),
          .dim = 2 + below(3),
          .hidden = 1 + below(4),
          .moe = {},
          .gated = below(2) == 0};
  s.groups = s.data * s.expert * (1 + below(2));
  s.moe.experts = s.expert * (1 + below(3));
  s.moe.top_k = 1 + below(std::min<int64_t>(2, s.moe.experts));
  s.moe.groups = s.groups;
  s.moe.capacity_factor = 0.5 + 0.5 * static_cast<double>(below(4));
  return s;
}

// As a strategy says it where what stores weights is annotated later than the batch.
const programs::ActivationRules kSlots = {{"moe.rows", {{"expert", shard(1)}}, 1}};

// Loss and gradients of one layer over x[groups, tokens, dim], by annotations of parameters and, of
// `rules`, of what goes to the experts.
Function layer(const Sizes& s, const programs::ActivationRules& rules = {}) {
  Builder b("layer", s.mesh());
  Value x = b.parameter("x", f64({s.groups, s.tokens, s.dim}),
                        {{"data", shard(0)}, {"expert", shard(0)}});
  Tree p;
  p.set("router", b.parameter("router", f64({s.dim, s.moe.experts})));
  // Weights that are looked at later than the batch leave the cut to what is said of rows.
  const auto weight = [&](const char* name, Dims dims) {
    Value w = b.parameter(name, {DType::kF64, std::move(dims)}, kByExpert);
    if (!rules.empty()) b.set_priorities(w, {1});
    p.set(name, w);
  };
  weight("up", {s.moe.experts, s.dim, s.hidden});
  if (s.gated) weight("gate", {s.moe.experts, s.dim, s.hidden});
  weight("down", {s.moe.experts, s.hidden, s.dim});
  const programs::MoeResult result =
      programs::moe(s.moe, p, x, [](Value h) { return gelu(h); }, rules);
  Value loss = sum(square(result.out)) + result.balance + result.z;
  b.result("loss", loss);
  b.result("out", result.out);
  b.result("load", result.load);
  b.result("dx", gradients(loss, {x})[0]);
  gradients(loss, p).for_each([&](const std::string& name, const Value& g) { b.result(name, g); });
  return b.build();
}

std::vector<AxisPlacements> placed_as_parameters(const Function& function) {
  std::vector<AxisPlacements> placements(function.results.size());
  for (size_t r = 0; r < placements.size(); ++r) {
    const std::string& name = function.result_names[r];
    if (name == "up" || name == "gate" || name == "down") placements[r] = kByExpert;
  }
  return placements;
}

TEST(ExpertsOverAxes, ComputeWhatOneDeviceDoes) {
  const uint64_t seed = ::gangway::testing::test_seed();
  for (uint64_t n = 0; n < 25; ++n) {
    std::mt19937_64 random(seed + n);
    const Sizes sizes = random_sizes(random);
    const Function function = layer(sizes, n % 2 == 0 ? programs::ActivationRules() : kSlots);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    const std::vector<Literal> arguments = ::gangway::testing::random_arguments(random, function);
    const Compiled compiled =
        compile_function(function, {.result_placements = placed_as_parameters(function)});
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12);
  }
}

// The collectives of a function ("all_to_all over expert"), and the bytes that each device sends in
// them, one entry a collective; -1 where devices send different amounts.
std::map<std::string, std::vector<int64_t>> sent(const Compiled& compiled,
                                                 const std::vector<Literal>& arguments) {
  const Function& local = *compiled.local.function;
  std::vector<Traffic> traffic;
  interpret_local(local, cut(local.mesh, compiled.parameter_shardings, arguments),
                  {.traffic = &traffic});
  std::map<std::string, std::vector<int64_t>> bytes;
  for (const Traffic& at : traffic) {
    const Node& node = local.nodes[at.node];
    if (!row(node.op).meets) continue;
    const bool alike = std::ranges::count(at.sent, at.sent[0]) == std::ssize(at.sent);
    bytes[cat(to_string(node.op), " over ", node.attrs.text("axes"))].push_back(alike ? at.sent[0]
                                                                                      : -1);
  }
  return bytes;
}

TEST(ExpertsOverAxes, RowsAreExchangedFourTimesAndNothingElseIs) {
  for (const auto& rules : {programs::ActivationRules(), kSlots}) {
    for (const int64_t experts_over : {2, 4}) {
      for (const int64_t more : {1, 2}) {
        const Sizes s{.data = 2,
                      .expert = experts_over,
                      .groups = 2 * experts_over * more,
                      .tokens = 6,
                      .dim = 4,
                      .hidden = 12,
                      .moe = {.experts = 4,
                              .top_k = 2,
                              .groups = 2 * experts_over * more,
                              .capacity_factor = 1.5},
                      .gated = more == 2};
        const Function function = layer(s, rules);
        std::mt19937_64 random(7);
        const auto bytes =
            sent(compile_function(function, {.result_placements = placed_as_parameters(function)}),
                 ::gangway::testing::random_arguments(random, function));
        // There and back, forward and backward. What stays on its device is not sent.
        EXPECT_EQ(bytes.at("all_to_all over expert"),
                  std::vector<int64_t>(4, s.bytes_of_an_exchange()));
        std::vector<std::string> kinds;
        for (const auto& [kind, each] : bytes) kinds.push_back(kind);
        // Experts' gradients are summed over the groups of other data, the router's and the losses
        // over all groups.
        EXPECT_THAT(
            kinds, ::testing::UnorderedElementsAre("all_to_all over expert", "all_reduce over data",
                                                   "all_reduce over data,expert"));
      }
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
