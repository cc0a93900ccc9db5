// Routing of tokens to experts, and moving rows there and back (see executor/kernels/moe.h).
#include "executor/devices/cuda/kernels/block_reduce.h"

namespace gangway::cuda {

// A block for each group: a counting sort by expert, stable. Each thread owns a run of choices and
// a column of counters in dynamic shared memory, i32[experts, threads] and i32[experts].
GW_KERNEL void moe_route(Global<const int32_t> expert, Global<int32_t> slot_token,
                         Global<int32_t> token_slot, Global<int32_t> sizes, int64_t choices,
                         int64_t slots, int64_t experts, int64_t capacity) {
  GW_DYNAMIC_SHARED(int32_t, counts);
  const int64_t threads = block_size().x, self = thread_index().x, group = block_index().x;
  const Shared<int32_t> starts = counts + experts * threads;
  const Global<const int32_t> chosen = expert + group * choices;
  const Global<int32_t> to_choice = slot_token + group * slots,
                        to_slot = token_slot + group * choices;
  const int64_t run = (choices + threads - 1) / threads;
  const int64_t begin = self * run < choices ? self * run : choices;
  const int64_t end = begin + run < choices ? begin + run : choices;
  for (int64_t s = self; s < slots; s += threads) to_choice[s] = -1;
  for (int64_t e = 0; e < experts; ++e) counts[e * threads + self] = 0;
  for (int64_t c = begin; c < end; ++c) {
    const int32_t e = chosen[c];
    if (e < 0 || e >= experts) continue;
    const int32_t before = counts[e * threads + self];
    counts[e * threads + self] = before + 1;
  }
  sync_block();
  // Counts become the number of the expert's choices in the runs before.
  for (int64_t e = self; e < experts; e += threads) {
    int32_t sum = 0;
    for (int64_t t = 0; t < threads; ++t) {
      const int32_t count = counts[e * threads + t];
      counts[e * threads + t] = sum;
      sum += count;
    }
    starts[e] = sum;
  }
  sync_block();
  if (self == 0) {
    int32_t start = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const int32_t count = starts[e];
      sizes[group * experts + e] = capacity > 0 ? static_cast<int32_t>(capacity) : count;
      starts[e] = capacity > 0 ? static_cast<int32_t>(e * capacity) : start;
      start += count;
    }
  }
  sync_block();
  for (int64_t c = begin; c < end; ++c) {
    const int32_t e = chosen[c];
    int32_t slot = -1;
    if (e >= 0 && e < experts) {
      const int32_t rank = counts[e * threads + self], start = starts[e];
      counts[e * threads + self] = rank + 1;
      if (capacity == 0 || rank < capacity) slot = start + rank;
    }
    to_slot[c] = slot;
    if (slot >= 0) to_choice[slot] = static_cast<int32_t>(c);
  }
}

// out[g, s] = gate * x[g, choice / k] for the choice in slot s, or zeros; n elements in all.
template <class T>
GW_KERNEL_TEMPLATE void moe_spread(Global<const T> x, Global<const T> gate,
                                   Global<const int32_t> slot_token, Global<T> out, int64_t tokens,
                                   int64_t k, int64_t slots, int64_t dim, int64_t n,
                                   bool with_gate) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t slot = i / dim, group = slot / slots;
    const int32_t choice = slot_token[slot];
    WideOf<T> value = 0;
    if (choice >= 0 && choice < tokens * k) {
      value = wide_at(x, (group * tokens + choice / k) * dim + i % dim);
      if (with_gate) value *= wide_at(gate, group * tokens * k + choice);
    }
    out[i] = narrow<T>(value);
  }
}

// y[g, t] = sum over j of gate[g, t, j] * rows[g, token_slot[g, t, j]]
template <class T>
GW_KERNEL_TEMPLATE void moe_combine(Global<const T> rows, Global<const T> gate,
                                    Global<const int32_t> token_slot, Global<T> out, int64_t tokens,
                                    int64_t k, int64_t slots, int64_t dim, int64_t n,
                                    bool with_gate) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t token = i / dim, group = token / tokens;
    WideOf<T> sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      const int32_t slot = token_slot[token * k + j];
      if (slot < 0 || slot >= slots) continue;
      const WideOf<T> value = wide_at(rows, (group * slots + slot) * dim + i % dim);
      sum += with_gate ? value * wide_at(gate, token * k + j) : value;
    }
    out[i] = narrow<T>(sum);
  }
}

// dgate of one choice = <dy of its token, rows of its slot>: a block for each choice.
template <class T>
GW_KERNEL_TEMPLATE void moe_gate_grad(Global<const T> dy, Global<const T> rows,
                                      Global<const int32_t> token_slot, Global<T> dgate,
                                      int64_t tokens, int64_t k, int64_t slots, int64_t dim) {
  const int64_t choice = block_index().x, token = choice / k, group = token / tokens;
  const int32_t slot = token_slot[choice];
  WideOf<T> sum = 0;
  if (slot >= 0 && slot < slots) {
    for (int64_t d = thread_index().x; d < dim; d += block_size().x)
      sum += wide_at(dy, token * dim + d) * wide_at(rows, (group * slots + slot) * dim + d);
  }
  sum = reduce_block<Sum>(sum, WideOf<T>(0));
  if (thread_index().x == 0) dgate[choice] = narrow<T>(sum);
}

GW_KERNEL_TABLE(moe, GW_ENTRY(moe_route), GW_INSTANCE("moe_spread_bf16", moe_spread<bf16>),
                GW_INSTANCE("moe_spread_f32", moe_spread<float>),
                GW_INSTANCE("moe_spread_f64", moe_spread<double>),
                GW_INSTANCE("moe_combine_bf16", moe_combine<bf16>),
                GW_INSTANCE("moe_combine_f32", moe_combine<float>),
                GW_INSTANCE("moe_combine_f64", moe_combine<double>),
                GW_INSTANCE("moe_gate_grad_bf16", moe_gate_grad<bf16>),
                GW_INSTANCE("moe_gate_grad_f32", moe_gate_grad<float>),
                GW_INSTANCE("moe_gate_grad_f64", moe_gate_grad<double>));

}  // namespace gangway::cuda
