#include "programs/models/moe.h"

#include <algorithm>
#include <cmath>

#include "ir/build/ops.h"

namespace gangway::programs {

bool renormalizes(const MoeConfig& config) { return config.renormalize.value_or(config.top_k > 1); }

int64_t capacity_of(const MoeConfig& config, int64_t tokens) {
  if (config.capacity_factor <= 0) return 0;
  double even = static_cast<double>(tokens * config.top_k) / static_cast<double>(config.experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(config.capacity_factor * even)));
}

namespace {

// Splits [batch, seq, n] into groups of sequences: [groups, sequences, seq, n].
Value by_group(const MoeConfig& config, Value x) {
  const Dims dims = x.type().dims;
  return reshape(x, {config.groups, dims[0] / config.groups, dims[1], dims[2]});
}

// Share of the (token, choice) pairs that chose each expert: [groups, experts].
Value choices(const MoeConfig& config, Value expert, DType dtype) {
  Dims dims = expert.type().dims;
  dims.push_back(config.experts);
  Value each = broadcast_in(expert, dims, {0, 1, 2, 3});
  Value index = iota(expert.builder(), each.type(), 4);
  Value chosen = convert(eq(each, index), dtype);
  return sum(chosen, {1, 2, 3}) * (1.0 / static_cast<double>(dims[1] * dims[2] * dims[3]));
}

// Returns the rules for rows as a layer of this many experts applies them: an expert's slots stay
// together.
ActivationRules rules_for_rows(ActivationRules rules, const Mesh& mesh, int64_t experts) {
  constexpr int kSlots = 1;
  const auto cuts_slots = [](const auto& item) {
    return item.second.kind == PlacementKind::kShard && item.second.dim == kSlots;
  };
  for (PlacementRule& rule : rules) {
    std::vector<std::string> axes;
    for (const auto& item : rule.placements) {
      if (cuts_slots(item)) axes.push_back(item.first);
    }
    axes = axes_that_divide(mesh, axes, experts);
    std::erase_if(rule.placements, [&](const auto& item) {
      return cuts_slots(item) && std::ranges::count(axes, item.first) == 0;
    });
  }
  return rules;
}

}  // namespace

MoeResult moe(const MoeConfig& config, const Tree& p, Value x, const ActivationFunction& activation,
              const ActivationRules& rules, Loc loc) {
  const LocScope at(loc);
  const Dims dims = x.type().dims;
  GW_REQUIRE(config.groups > 0 && dims[0] % config.groups == 0,
             "moe: groups must divide the batch: groups is ", config.groups, ", the batch ",
             dims[0]);
  GW_REQUIRE(config.top_k >= 1 && config.top_k <= config.experts,
             "moe: top_k must be between 1 and the ", config.experts, " experts, got ",
             config.top_k);
  const int64_t tokens = dims[0] * dims[1] / config.groups;
  const DType exact = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  x = placed(rules, "moe.in", x);

  // The router is small and decides discretely, so it always computes in full precision. Tokens are
  // routed where they lie, before they come together in groups.
  Value logits = dot(convert(x, exact), convert(p["router"], exact));
  Value probability = softmax(logits);
  auto [gate, expert] = top_k(probability, config.top_k);
  if (renormalizes(config))
    gate = gate / broadcast_to(reshape(sum(gate, {2}), {dims[0], dims[1], 1}), gate.type().dims);

  auto grouped = [&](Value each) { return reshape(each, {config.groups, tokens, each.dim(2)}); };
  Route route = moe_route(grouped(expert), config.experts, capacity_of(config, tokens));
  route.bound = config.bound;
  const ActivationRules for_rows =
      rules_for_rows(rules, x.builder().function().mesh, config.experts);
  Value rows = placed(for_rows, "moe.rows", moe_dispatch(grouped(x), route));
  auto project = [&](const char* name) {
    return grouped_dot(rows, convert(p[name], x.dtype()), route);
  };
  Value hidden = hidden_units(p, activation, project);
  Value out = grouped_dot(hidden, convert(p["down"], x.dtype()), route);
  out = placed(for_rows, "moe.rows", out);
  out = moe_combine(out, convert(grouped(gate), x.dtype()), route);

  MoeResult result;
  out = reshape(out, dims);
  if (config.residual) out = out + feed_forward(p["residual"], x, activation, rules);
  result.out = placed(rules, "moe.out", out);
  Value share = stop_gradient(choices(config, by_group(config, expert), exact));
  Value likely = mean(by_group(config, probability), {1, 2});
  result.balance = mean(sum(share * likely, {1})) * static_cast<double>(config.experts);
  Value peak = stop_gradient(reduce_max(logits, {2}));
  Value shifted = logits - broadcast_in(peak, logits.type().dims, {0, 1});
  Value logsumexp = log(sum(exp(shifted), {2})) + peak;
  result.z = mean(square(logsumexp));
  result.load = share;
  return result;
}

}  // namespace gangway::programs
