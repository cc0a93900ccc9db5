#include "programs/models/moe.h"

#include <cmath>

#include "ir/build/ops.h"

namespace gangway::programs {

int64_t capacity_of(const MoeConfig& config, int64_t tokens) {
  if (config.capacity_factor <= 0) return 0;
  double even = static_cast<double>(tokens * config.top_k) / static_cast<double>(config.experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(config.capacity_factor * even)));
}

namespace {

// Share of the (token, choice) pairs that chose each expert: [groups, experts].
Value choices(Value expert, int64_t experts, DType dtype) {
  Dims dims = expert.type().dims;
  double pairs = static_cast<double>(dims[1] * dims[2]);
  Value each = broadcast_in(expert, {dims[0], dims[1], dims[2], experts}, {0, 1, 2});
  Value index = iota(expert.builder(), each.type(), 3);
  Value chosen = convert(eq(each, index), dtype);
  return sum(chosen, {1, 2}) * (1.0 / pairs);
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
  Value grouped = reshape(x, {config.groups, tokens, dims[2]});

  // The router is small and decides discretely: always in full precision.
  Value logits = dot(convert(grouped, exact), convert(p["router"], exact));
  Value probability = softmax(logits);
  auto [gate, expert] = top_k(probability, config.top_k);
  if (config.renormalize)
    gate =
        gate / broadcast_to(reshape(sum(gate, {2}), {config.groups, tokens, 1}), gate.type().dims);

  Route route = moe_route(expert, config.experts, capacity_of(config, tokens));
  route.bound = config.bound;
  Value rows = placed(rules, "moe.rows", moe_dispatch(grouped, route));
  auto project = [&](const char* name) {
    return grouped_dot(rows, convert(p[name], x.dtype()), route);
  };
  Value hidden = hidden_units(p, activation, project);
  Value out = grouped_dot(hidden, convert(p["down"], x.dtype()), route);
  out = placed(rules, "moe.rows", out);
  out = moe_combine(out, convert(gate, x.dtype()), route);

  MoeResult result;
  out = reshape(out, dims);
  if (config.residual) out = out + feed_forward(p["residual"], x, activation, rules);
  result.out = placed(rules, "moe.out", out);
  Value share = stop_gradient(choices(expert, config.experts, exact));
  result.balance =
      mean(sum(share * mean(probability, {1}), {1})) * static_cast<double>(config.experts);
  Value peak = stop_gradient(reduce_max(logits, {2}));
  Value shifted = logits - broadcast_in(peak, logits.type().dims, {0, 1});
  Value logsumexp = log(sum(exp(shifted), {2})) + peak;
  result.z = mean(square(logsumexp));
  result.load = share;
  return result;
}

}  // namespace gangway::programs
