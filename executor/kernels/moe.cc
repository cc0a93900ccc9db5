#include "executor/kernels/moe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/kernels/simd/simd.h"

namespace gangway {
namespace {

int64_t row_bytes(const MoeShape& s) { return s.dim * static_cast<int64_t>(size_of(s.dtype)); }

const std::byte* row(const void* rows, int64_t index, const MoeShape& s) {
  return static_cast<const std::byte*>(rows) + index * row_bytes(s);
}

double gate_at(const MoeShape& s, const void* gate, int64_t i) {
  if (gate == nullptr) return 1;
  if (s.gate == DType::kF64) return static_cast<const double*>(gate)[i];
  if (s.gate == DType::kF32) return static_cast<double>(static_cast<const float*>(gate)[i]);
  float wide;
  simd::table(KernelIsa::kBase).widen_bf16(static_cast<const uint16_t*>(gate) + i, &wide, 1);
  return static_cast<double>(wide);
}

void put_gate(const MoeShape& s, void* gate, int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (s.gate == DType::kF64) {
    static_cast<double*>(gate)[i] = value;
  } else if (s.gate == DType::kF32) {
    static_cast<float*>(gate)[i] = narrow;
  } else {
    simd::table(KernelIsa::kBase).narrow_bf16(&narrow, static_cast<uint16_t*>(gate) + i, 1);
  }
}

// Rows of a group are chosen by `from` (a slot's choice): out[g, s] = gate * x[g, choice / k], or
// zeros.
void spread(Parallel& par, const MoeShape& s, const void* x, const void* gate,
            const int32_t* slot_token, void* out) {
  if (s.k == 0) return;
  par.for_each_range(s.groups * s.slots, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / s.slots, choice = slot_token[i];
      void* to = static_cast<std::byte*>(out) + i * row_bytes(s);
      if (choice < 0 || choice >= s.tokens * s.k) {
        std::memset(to, 0, static_cast<size_t>(row_bytes(s)));
        continue;
      }
      const void* from = row(x, g * s.tokens + choice / s.k, s);
      if (gate == nullptr) {
        std::memcpy(to, from, static_cast<size_t>(row_bytes(s)));
      } else {
        const double weight = gate_at(s, gate, g * s.tokens * s.k + choice);
        par.simd().weighted_rows(s.dtype, &from, &weight, 1, s.dim, to);
      }
    }
  });
}

void route_group(const RouteShape& s, const int32_t* expert, const RouteTensors& out) {
  const int64_t choices = s.tokens * s.k, slots = s.slots();
  std::fill_n(out.slot_token, slots, -1);
  std::fill_n(out.sizes, s.experts, 0);
  // Without a capacity sizes become the starts of the experts first: counts, then their prefix
  // sums.
  auto known = [&](int32_t e) { return e >= 0 && e < s.experts; };
  if (s.capacity == 0) {
    for (int64_t c = 0; c < choices; ++c) {
      if (known(expert[c])) ++out.sizes[expert[c]];
    }
    int32_t start = 0;
    for (int64_t e = 0; e < s.experts; ++e) start += std::exchange(out.sizes[e], start);
  }
  for (int64_t c = 0; c < choices; ++c) {
    const int32_t e = expert[c];
    out.token_slot[c] = -1;
    if (!known(e) || (s.capacity > 0 && out.sizes[e] == s.capacity)) continue;
    const auto slot = static_cast<int32_t>(s.capacity * e + out.sizes[e]++);
    out.token_slot[c] = slot;
    out.slot_token[slot] = static_cast<int32_t>(c);
  }
  if (s.capacity > 0) {
    std::fill_n(out.sizes, s.experts, static_cast<int32_t>(s.capacity));
  } else {  // Each entry is now the end of its expert.
    for (int64_t e = s.experts - 1; e > 0; --e) out.sizes[e] -= out.sizes[e - 1];
  }
}

}  // namespace

void moe_route(Parallel& par, const RouteShape& s, const int32_t* expert, const RouteTensors& out) {
  par.for_each_chunk(s.groups, [&](int64_t g) {
    route_group(s, expert + g * s.tokens * s.k,
                {out.slot_token + g * s.slots(), out.token_slot + g * s.tokens * s.k,
                 out.sizes + g * s.experts});
  });
}

void moe_dispatch(Parallel& par, const MoeShape& shape, const void* x, const int32_t* slot_token,
                  void* rows) {
  spread(par, shape, x, nullptr, slot_token, rows);
}

void moe_combine(Parallel& par, const MoeShape& s, const void* rows, const void* gate,
                 const int32_t* token_slot, void* y) {
  par.for_each_range(s.groups * s.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const void* chosen[kMoeChoicesMax];
      double weights[kMoeChoicesMax];
      int64_t count = 0;
      for (int64_t j = 0; j < std::min(s.k, kMoeChoicesMax); ++j) {
        const int32_t slot = token_slot[t * s.k + j];
        if (slot < 0 || slot >= s.slots) continue;
        chosen[count] = row(rows, t / s.tokens * s.slots + slot, s);
        weights[count++] = gate_at(s, gate, t * s.k + j);
      }
      par.simd().weighted_rows(s.dtype, chosen, weights, count, s.dim,
                               static_cast<std::byte*>(y) + t * row_bytes(s));
    }
  });
}

void moe_combine_grad_rows(Parallel& par, const MoeShape& shape, const void* dy, const void* gate,
                           const int32_t* slot_token, void* drows) {
  spread(par, shape, dy, gate, slot_token, drows);
}

void moe_combine_grad_gate(Parallel& par, const MoeShape& s, const void* dy, const void* rows,
                           const int32_t* token_slot, void* dgate) {
  par.for_each_range(s.groups * s.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin * s.k; c < end * s.k; ++c) {
      const int64_t t = c / s.k, slot = token_slot[c];
      double dot = 0;
      if (slot >= 0 && slot < s.slots) {
        dot = par.simd().dot_rows(s.dtype, row(dy, t, s),
                                  row(rows, t / s.tokens * s.slots + slot, s), s.dim);
      }
      put_gate(s, dgate, c, dot);
    }
  });
}

}  // namespace gangway
