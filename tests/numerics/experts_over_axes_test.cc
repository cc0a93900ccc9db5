// Expert parallelism (GShard, Lepikhin et al. 2020; Switch Transformer, Fedus et al. 2021): one
// axis cuts tokens by groups and experts' weights by experts. The model does not know: rows go to
// their experts and back because producer and consumer are cut differently, or, if dropless, by the
// distributed op of products of experts.
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
#include "tests/support/error_of.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/recovery/routed_rows.h"
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
  // Bytes that a device sends in one exchange of its groups' rows: E C d (n - 1) / n elements for
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

// The rule that a strategy has if it annotates stored weights later than the batch.
const programs::ActivationRules kSlots = {{"moe.rows", {{"expert", shard(1)}}, 1}};

// Loss and gradients of one layer over x[groups, tokens, dim]. Its parameters are annotated;
// `rules` annotate the rows that go to the experts.
Function layer(const Sizes& s, const programs::ActivationRules& rules = {}) {
  Builder b("layer", s.mesh());
  Value x = b.parameter("x", f64({s.groups, s.tokens, s.dim}),
                        {{"data", shard(0)}, {"expert", shard(0)}});
  Tree p;
  p.set("router", b.parameter("router", f64({s.dim, s.moe.experts})));
  // Weights that are annotated later than the batch leave the cut to the rules on rows.
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

TEST(ExpertsOverAxes, ComputeWhatOneDeviceDoes) {
  const uint64_t seed = gangway::tests::test_seed();
  for (uint64_t n = 0; n < 25; ++n) {
    std::mt19937_64 random(seed + n);
    const Sizes sizes = random_sizes(random);
    const Function function = layer(sizes, n % 2 == 0 ? programs::ActivationRules() : kSlots);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    const Compiled compiled =
        compile_function(function, {.result_placements = placed_as_parameters(function)});
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12);
  }
}

TEST(ExpertsOverAxes, ComputeWhatOneDeviceDoesWithoutACapacity) {
  const uint64_t seed = gangway::tests::test_seed();
  for (uint64_t n = 0; n < 25; ++n) {
    std::mt19937_64 random(seed + n);
    Sizes sizes = random_sizes(random);
    sizes.moe.capacity_factor = 0;
    sizes.moe.bound = static_cast<double>(sizes.expert);  // Room for all rows of all devices.
    const Function function = layer(sizes);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    const Compiled compiled =
        compile_function(function, {.result_placements = placed_as_parameters(function)});
    const auto kinds = sent(compiled, arguments);
    EXPECT_TRUE(kinds.contains("ragged_all_to_all over expert"));
    EXPECT_FALSE(kinds.contains("all_gather over expert")) << "of weights or rows";
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12);
  }
}

// One product of dropless experts over f64[groups, tokens, dim], given the choice of each token.
struct Routed {
  static constexpr int64_t kExperts = 4, kGroups = 4, kTokens = 6, kDim = 3, kHidden = 5;

  static Function product(double bound) {
    Builder b("product", Mesh{{{"expert", 2}}});
    Value x = b.parameter("x", f64({kGroups, kTokens, kDim}), kByExpert);
    Value expert = b.parameter("choice", i32({kGroups, kTokens, 1}), kByExpert);
    Value w = b.parameter("w", f64({kExperts, kDim, kHidden}), kByExpert);
    b.result("y", through_experts(x, expert, w, bound));
    return b.build();
  }

  // Each token of group g chooses choice(g, token).
  template <class Choice>
  static std::vector<Literal> arguments(const Function& function, Choice choice) {
    std::mt19937_64 random(3);
    std::vector<Literal> all = gangway::tests::random_arguments(random, function);
    for (int64_t i = 0; i < kGroups * kTokens; ++i)
      all[1].values[static_cast<size_t>(i)] = static_cast<double>(choice(i / kTokens, i % kTokens));
    return all;
  }

  // Bytes that each device sends in ragged exchanges, without the sizes.
  static std::vector<int64_t> bytes_of_rows(const Function& function,
                                            const std::vector<Literal>& arguments) {
    const Compiled compiled = compile_function(function, {});
    const Function& local = *compiled.local.function;
    std::vector<Traffic> traffic;
    interpret_local(local, cut(local.mesh, compiled.parameter_shardings, arguments),
                    {.traffic = &traffic});
    std::vector<int64_t> bytes(2, 0);
    for (const Traffic& at : traffic) {
      if (local.nodes[at.node].op != Op::ragged_all_to_all) continue;
      for (size_t device = 0; device < 2; ++device) bytes[device] += at.sent[device] - 4;
    }
    return bytes;
  }
};

TEST(ExpertsOverAxes, OnlyDroplessRowsForOtherDevicesAreSent) {
  const Function function = Routed::product(2);
  // Device 0 has groups 0 and 1 and experts 0 and 1; `away` tokens of group 0 choose expert 3.
  for (const int64_t away : {0, 1, 6}) {
    const auto arguments = Routed::arguments(function, [&](int64_t group, int64_t token) {
      if (group == 0 && token < away) return int64_t{3};
      return group / 2 * 2 + token % 2;
    });
    // Rows go there dim wide, and come back from device 1 hidden wide.
    EXPECT_EQ(Routed::bytes_of_rows(function, arguments),
              (std::vector<int64_t>{away * Routed::kDim * 8, away * Routed::kHidden * 8}));
    const Compiled compiled = compile_function(function, {});
    EXPECT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-15);
  }
}

TEST(ExpertsOverAxes, MoreDroplessRowsThanThereIsRoomForAreAnError) {
  // Each device has 12 rows. All 24 choose the experts of one device.
  const auto all_to_one = [](int64_t, int64_t token) { return token % 2; };
  const auto error = [&](double bound) {
    const Function function = Routed::product(bound);
    const auto arguments = Routed::arguments(function, all_to_one);
    return error_of([&] { interpret_compiled(compile_function(function, {}), arguments); });
  };
  EXPECT_EQ(error(1.9).kind(), ErrorKind::kOverflow);
  EXPECT_THAT(std::string(error(1.9).what()), ::testing::HasSubstr("at most 23"));
  EXPECT_EQ(error(0).kind(), ErrorKind::kOverflow) << "room for one row";
  const Function function = Routed::product(100);
  interpret_compiled(compile_function(function, {}), Routed::arguments(function, all_to_one));
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
                 gangway::tests::random_arguments(random, function));
        // Rows go there and back, forward and backward. Rows that stay on their device are not
        // sent.
        EXPECT_EQ(bytes.at("all_to_all over expert"),
                  std::vector<int64_t>(4, s.bytes_of_an_exchange()));
        std::vector<std::string> kinds;
        for (const auto& [kind, each] : bytes) kinds.push_back(kind);
        // Experts' gradients are summed over the groups along "data", the router's gradient and the
        // losses over all groups.
        EXPECT_THAT(
            kinds, ::testing::UnorderedElementsAre("all_to_all over expert", "all_reduce over data",
                                                   "all_reduce over data,expert"));
      }
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
