#include "executor/kernels/moe.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

std::vector<double> doubles(const std::vector<int32_t>& x) { return {x.begin(), x.end()}; }

struct Route {
  std::vector<int32_t> slot_token, token_slot, sizes;
};

// Expert by expert, choice by choice.
Route reference(const RouteShape& s, const std::vector<int32_t>& expert) {
  Route r;
  const int64_t choices = s.tokens * s.k;
  r.token_slot.assign(static_cast<size_t>(s.groups * choices), -1);
  for (int64_t g = 0; g < s.groups; ++g) {
    std::vector<int32_t> slots;
    for (int64_t e = 0; e < s.experts; ++e) {
      const size_t before = slots.size();
      for (int64_t c = 0; c < choices; ++c) {
        if (expert[static_cast<size_t>(g * choices + c)] != e) continue;
        if (s.capacity > 0 && static_cast<int64_t>(slots.size() - before) == s.capacity) continue;
        r.token_slot[static_cast<size_t>(g * choices + c)] = static_cast<int32_t>(slots.size());
        slots.push_back(static_cast<int32_t>(c));
      }
      if (s.capacity > 0) slots.resize(before + static_cast<size_t>(s.capacity), -1);
      r.sizes.push_back(static_cast<int32_t>(slots.size() - before));
    }
    slots.resize(static_cast<size_t>(s.slots()), -1);
    r.slot_token.insert(r.slot_token.end(), slots.begin(), slots.end());
  }
  return r;
}

const RouteShape kRoutes[] = {{1, 1, 1, 1, 0},  {3, 17, 2, 4, 0}, {3, 17, 2, 4, 5},
                              {2, 40, 1, 8, 3}, {2, 0, 2, 3, 0},  {1, 6, 2, 4, 100}};

TEST(Moe, RoutesByExpertInTokenOrderAndDropsWhatFindsItsExpertFull) {
  std::mt19937 rng = seeded();
  for (const RouteShape& s : kRoutes) {
    const auto expert =
        random_ints(rng, s.groups * s.tokens * s.k, -1, static_cast<int32_t>(s.experts) + 1);
    const Route want = reference(s, expert);
    check_everywhere(
        "route",
        [&](Parallel& par) {
          Buffer slots(DType::kI32, s.groups * s.slots()),
              tokens(DType::kI32, s.groups * s.tokens * s.k),
              sizes(DType::kI32, s.groups * s.experts);
          moe_route(par, s, expert.data(),
                    {slots.as<int32_t>(), tokens.as<int32_t>(), sizes.as<int32_t>()});
          return outputs(std::move(slots), std::move(tokens), std::move(sizes));
        },
        {{doubles(want.slot_token), 0}, {doubles(want.token_slot), 0}, {doubles(want.sizes), 0}});
  }
}

// All four movements of rows against the route as a matrix of zeros and ones.
void check_rows(const RouteShape& r, DType dtype, DType gate_type, bool gated, std::mt19937& rng) {
  const int64_t dim = 21;
  const Route route =
      reference(r, random_ints(rng, r.groups * r.tokens * r.k, 0, static_cast<int32_t>(r.experts)));
  const MoeShape s{dtype, gate_type, r.groups, r.tokens, r.k, r.slots(), dim};
  const Buffer x(dtype, randoms(rng, dtype, s.groups * s.tokens * dim)),
      rows(dtype, randoms(rng, dtype, s.groups * s.slots * dim));
  const Buffer gate(gate_type, randoms(rng, gate_type, s.groups * s.tokens * s.k));
  auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0); };
  auto dispatched = zeros(rows.size()), drows = dispatched, y = zeros(x.size()),
       dgate = zeros(gate.size());
  for (int64_t c = 0; c < s.groups * s.tokens * s.k; ++c) {
    const int32_t slot = route.token_slot[static_cast<size_t>(c)];
    if (slot < 0) continue;
    const int64_t t = c / s.k, at = (t / s.tokens * s.slots + slot) * dim;
    const double w = gated ? gate.get(c) : 1;
    for (int64_t d = 0; d < dim; ++d) {
      dispatched[static_cast<size_t>(at + d)] = x.get(t * dim + d);
      drows[static_cast<size_t>(at + d)] = w * x.get(t * dim + d);
      y[static_cast<size_t>(t * dim + d)] += w * rows.get(at + d);
      dgate[static_cast<size_t>(c)] += x.get(t * dim + d) * rows.get(at + d);
    }
  }
  const void* weights = gated ? gate.data() : nullptr;
  check_everywhere(
      cat("rows ", to_string(dtype)),
      [&](Parallel& par) {
        Buffer out(dtype, rows.size()), combined(dtype, x.size()), grad_rows(dtype, rows.size()),
            grad_gate(gate_type, gate.size());
        moe_dispatch(par, s, x.data(), route.slot_token.data(), out.data());
        moe_combine(par, s, rows.data(), weights, route.token_slot.data(), combined.data());
        moe_combine_grad_rows(par, s, x.data(), weights, route.slot_token.data(), grad_rows.data());
        moe_combine_grad_gate(par, s, x.data(), rows.data(), route.token_slot.data(),
                              grad_gate.data());
        return outputs(std::move(out), std::move(combined), std::move(grad_rows),
                       std::move(grad_gate));
      },
      {{dispatched, 0}, {y, 8}, {drows, 2}, {dgate, 16}});
}

TEST(Moe, MovesRowsThereAndBackWithGradients) {
  std::mt19937 rng = seeded();
  for (const RouteShape& r : kRoutes) {
    for (DType dtype : kFloats) {
      check_rows(r, dtype, dtype, true, rng);
      check_rows(r, dtype, dtype, false, rng);
    }
    check_rows(r, DType::kBF16, DType::kF32, true, rng);
  }
}

TEST(Moe, ABadRouteNeverLeavesTheBuffers) {
  const MoeShape s{DType::kF32, DType::kF32, 1, 2, 1, 2, 3};
  const Buffer x(DType::kF32, {1, 2, 3, 4, 5, 6}), gate(DType::kF32, {1, 1});
  const std::vector<int32_t> bad = {99, -7};
  check_everywhere("bad",
                   [&](Parallel& par) {
                     Buffer rows(DType::kF32, 6), y(DType::kF32, 6), dgate(DType::kF32, 2);
                     moe_dispatch(par, s, x.data(), bad.data(), rows.data());
                     moe_combine(par, s, x.data(), gate.data(), bad.data(), y.data());
                     moe_combine_grad_gate(par, s, x.data(), x.data(), bad.data(), dgate.data());
                     return outputs(std::move(rows), std::move(y), std::move(dgate));
                   },
                   {{std::vector<double>(6, 0), 0}, {std::vector<double>(6, 0), 0}, {{0, 0}, 0}});
}

}  // namespace
}  // namespace gangway
