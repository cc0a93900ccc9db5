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
Value choices(Value expert, int64_t experts, DType dtype, Loc loc) {
  Dims dims = expert.type().dims;
  double pairs = static_cast<double>(dims[1] * dims[2]);
  Value each = broadcast_in(expert, {dims[0], dims[1], dims[2], experts}, {0, 1, 2}, loc);
  Value index = iota(expert.builder(), each.type(), 3, loc);
  Value chosen = convert(eq(Operand(each, loc), Operand(index, loc)), dtype, loc);
  return sum(chosen, {1, 2}, loc) * Operand(1.0 / pairs, loc);
}

}  // namespace

MoeResult moe(const MoeConfig& config, const Tree& p, Value x,
              const std::function<Value(Value)>& activation, Loc loc) {
  const Dims dims = x.type().dims;
  GW_REQUIRE(config.groups > 0 && dims[0] % config.groups == 0,
             "moe: groups must divide the batch: groups is ", config.groups, ", the batch ",
             dims[0]);
  GW_REQUIRE(config.top_k >= 1 && config.top_k <= config.experts,
             "moe: top_k must be between 1 and the ", config.experts, " experts, got ",
             config.top_k);
  const int64_t tokens = dims[0] * dims[1] / config.groups;
  const DType exact = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Value grouped = reshape(x, {config.groups, tokens, dims[2]}, loc);

  // The router is small and decides discretely: always in full precision.
  Value logits = dot(convert(grouped, exact, loc), convert(p["router"], exact, loc), loc);
  Value probability = softmax(logits, loc);
  auto [gate, expert] = top_k(probability, config.top_k, loc);
  if (config.renormalize)
    gate =
        gate / Operand(broadcast_to(reshape(sum(gate, {2}, loc), {config.groups, tokens, 1}, loc),
                                    gate.type().dims, loc),
                       loc);

  Route route = moe_route(expert, config.experts, capacity_of(config, tokens), loc);
  Value rows = moe_dispatch(grouped, route, loc);
  auto project = [&](const char* name) {
    return grouped_dot(rows, convert(p[name], x.dtype(), loc), route.sizes, loc);
  };
  Value hidden =
      p.contains("gate") ? activation(project("gate")) * project("up") : activation(project("up"));
  Value out = grouped_dot(hidden, convert(p["down"], x.dtype(), loc), route.sizes, loc);
  out = moe_combine(out, convert(gate, x.dtype(), loc), route, loc);

  MoeResult result;
  result.out = reshape(out, dims, loc);
  Value share = stop_gradient(choices(expert, config.experts, exact, loc), loc);
  result.balance = mean(sum(share * mean(probability, {1}, loc), {1}, loc), {}, loc) *
                   Operand(static_cast<double>(config.experts), loc);
  Value peak = stop_gradient(reduce_max(logits, {2}, loc), loc);
  Value shifted = logits - broadcast_in(peak, logits.type().dims, {0, 1}, loc);
  Value logsumexp = log(sum(exp(shifted, loc), {2}, loc), loc) + peak;
  result.z = mean(square(logsumexp, loc), {}, loc);
  result.load = mean(share, {0}, loc);
  return result;
}

}  // namespace gangway::programs
