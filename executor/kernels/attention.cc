#include "executor/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

using simd::AttentionHead;

int64_t padded(int64_t n) { return align_up(n, simd::kAttentionPad); }
int64_t panels(int64_t n) { return align_up(n, simd::kPanelCols); }
size_t element(const AttentionShape& s) { return s.dtype == DType::kF64 ? 8 : 4; }

// Bytes for one thread, of `elements` of the compute type; threads never share a cache line.
size_t slice_bytes(const AttentionShape& s, int64_t elements) {
  return align_up(static_cast<size_t>(elements) * element(s), 128);
}
// The larger of what plain numbers and pairs of bf16 need (for all but tiny heads the first): the
// memory plan does not depend on the instruction set.
size_t forward_bytes(const AttentionShape& s) {
  const int64_t wide = padded(s.head_dim), block = simd::kAttentionBlockQ;
  const int64_t plain = s.head_dim * padded(s.seq_k) + s.seq_k * wide + block * wide;
  const int64_t lines = (s.head_dim + 1) / 2;
  const int64_t pairs = lines * panels(s.seq_k) + (s.seq_k + 1) / 2 * wide + block * lines;
  return slice_bytes(s, std::max(plain, pairs) + block * (wide + simd::kAttentionBlockK));
}
size_t backward_bytes(const AttentionShape& s) {
  const int64_t wide = padded(s.head_dim), block = simd::kAttentionBlockQ;
  const int64_t plain = 2 * s.head_dim * padded(s.seq_k) + s.seq_k * wide + 2 * block * wide;
  const int64_t lines = (s.head_dim + 1) / 2;
  const int64_t pairs =
      2 * lines * panels(s.seq_k) + (s.seq_k + 1) / 2 * wide + 2 * block * lines + block * wide;
  return slice_bytes(
      s, std::max(plain, pairs) + 2 * s.seq_k * wide + block * (wide + 2 * simd::kAttentionBlockK));
}
size_t decode_bytes(const AttentionShape& s) {
  return slice_bytes(s, padded(s.seq_k) + 2 * padded(s.head_dim));
}

AttentionHead head_of(const AttentionShape& s) {
  const int64_t dense = s.heads * s.head_dim;
  auto stride = [&](int64_t given) { return given == 0 ? dense : given; };
  AttentionHead h{};
  h.dtype = s.dtype;
  h.causal = s.causal;
  h.seq_q = s.seq_q;
  h.seq_k = s.seq_k;
  h.lead = s.seq_k - s.seq_q;
  h.head_dim = s.head_dim;
  h.scale = s.scale == 0 ? 1 / std::sqrt(static_cast<double>(s.head_dim)) : s.scale;
  h.stride_q = stride(s.stride_q);
  h.stride_k = stride(s.stride_k);
  h.stride_v = stride(s.stride_v);
  h.stride_out = stride(s.stride_out);
  return h;
}

// Where head `unit` = batch item * heads + head of a tensor begins.
template <class Pointer>
Pointer head_at(Pointer tensor, const AttentionShape& s, int64_t unit, int64_t seq,
                int64_t stride) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte,
                                  std::byte>;
  const int64_t offset = unit / s.heads * seq * stride + unit % s.heads * s.head_dim;
  return static_cast<Byte*>(tensor) + offset * static_cast<int64_t>(size_of(s.dtype));
}

// body(head, unit) for each head, with scratch of the thread that runs it.
template <class Body>
void for_each_head(Parallel& par, const AttentionShape& s, void* scratch, size_t slice,
                   const Body& body) {
  const int64_t units = s.batch * s.heads, parts = std::min<int64_t>(par.threads(), units);
  par.for_each_chunk(parts, [&](int64_t p) {
    AttentionHead head = head_of(s);
    head.native = has_native_bf16(par.isa());
    head.scratch = static_cast<std::byte*>(scratch) + static_cast<size_t>(p) * slice;
    for (int64_t u = units * p / parts; u < units * (p + 1) / parts; ++u) body(head, u);
  });
}

}  // namespace

size_t attention_scratch_bytes(const AttentionShape& shape, int threads) {
  return static_cast<size_t>(threads) * forward_bytes(shape);
}

size_t attention_grad_scratch_bytes(const AttentionShape& shape, int threads) {
  return static_cast<size_t>(threads) * backward_bytes(shape);
}

size_t attention_decode_scratch_bytes(const AttentionShape& shape, int threads) {
  return static_cast<size_t>(threads) * decode_bytes(shape);
}

void attention(Parallel& par, const AttentionShape& s, const void* q, const void* k, const void* v,
               void* out, void* lse, void* scratch, std::optional<int64_t> lead) {
  for_each_head(par, s, scratch, forward_bytes(s), [&](AttentionHead& h, int64_t u) {
    h.lead = lead.value_or(h.lead);
    h.q = head_at(q, s, u, s.seq_q, h.stride_q);
    h.k = head_at(k, s, u, s.seq_k, h.stride_k);
    h.v = head_at(v, s, u, s.seq_k, h.stride_v);
    h.out = head_at(out, s, u, s.seq_q, h.stride_out);
    h.lse = lse == nullptr
                ? nullptr
                : static_cast<std::byte*>(lse) + u * s.seq_q * static_cast<int64_t>(element(s));
    par.simd().attention_head(h);
  });
}

void attention_grad(Parallel& par, const AttentionShape& s, const AttentionGrad& t, void* scratch,
                    std::optional<int64_t> lead) {
  for_each_head(par, s, scratch, backward_bytes(s), [&](AttentionHead& h, int64_t u) {
    h.lead = lead.value_or(h.lead);
    h.whole_rows = !lead.has_value();
    h.q = head_at(t.q, s, u, s.seq_q, h.stride_q);
    h.k = head_at(t.k, s, u, s.seq_k, h.stride_k);
    h.v = head_at(t.v, s, u, s.seq_k, h.stride_v);
    h.out = head_at(const_cast<void*>(t.out), s, u, s.seq_q, h.stride_out);
    h.dout = head_at(t.dout, s, u, s.seq_q, h.stride_out);
    h.lse = static_cast<std::byte*>(const_cast<void*>(t.lse)) +
            u * s.seq_q * static_cast<int64_t>(element(s));
    h.dq = head_at(t.dq, s, u, s.seq_q, h.stride_q);
    h.dk = head_at(t.dk, s, u, s.seq_k, h.stride_k);
    h.dv = head_at(t.dv, s, u, s.seq_k, h.stride_v);
    par.simd().attention_grad_head(h);
  });
}

void attention_decode(Parallel& par, const AttentionShape& s, int64_t length, const void* q,
                      const void* k, const void* v, void* out, void* scratch) {
  for_each_head(par, s, scratch, decode_bytes(s), [&](AttentionHead& h, int64_t u) {
    h.seq_k = std::clamp<int64_t>(length, 0, s.seq_k);
    h.q = head_at(q, s, u, 1, h.stride_q);
    h.k = head_at(k, s, u, s.seq_k, h.stride_k);
    h.v = head_at(v, s, u, s.seq_k, h.stride_v);
    h.out = head_at(out, s, u, 1, h.stride_out);
    par.simd().attention_decode_head(h);
  });
}

}  // namespace gangway
