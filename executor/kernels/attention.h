// Multi-head attention in blocks: the scores of one block of queries are all that exists at a time.
//
//   q[batch, seq_q, heads * head_dim], k and v [batch, seq_k, heads * head_dim] -> out as q
//   out = softmax(scale * q k^T, masked) v for each head
//   lse[batch, heads, seq_q] = log(sum(exp(scores)))
//
// f32 and bf16 (scores and sums in f32, lse f32), f64 (lse f64). A row stride per tensor lets q, k,
// v be views of one projection x[batch, seq, 3 * heads * head_dim]; 0 means dense. `causal`: query
// i sees keys j <= i + lead, where lead is seq_k - seq_q unless it is given (attention to some of
// the keys of a longer sequence). A query that sees no key gives zeros and lse = -inf. One head is
// one unit of parallel work, so bits do not depend on the number of threads.
// Threads: any. Scratch: 64-byte aligned, per thread a few blocks: O((seq + block) * head_dim +
// block * seq).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct AttentionShape {
  DType dtype = DType::kF32;
  int64_t batch = 1, heads = 1, seq_q = 0, seq_k = 0, head_dim = 0;
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  // Elements from one position to the next, of q (and dq), k (dk), v (dv), out (and dout).
  int64_t stride_q = 0, stride_k = 0, stride_v = 0, stride_out = 0;
  // Whether a card's gradient must have the same bits each time, as the program chose (Numerics in
  // ir/graph/numerics.h).
  std::optional<bool> deterministic = std::nullopt;
  bool operator==(const AttentionShape&) const = default;
};

size_t attention_scratch_bytes(const AttentionShape& shape, int threads);
void attention(Parallel& par, const AttentionShape& shape, const void* q, const void* k,
               const void* v, void* out, void* lse, void* scratch,
               std::optional<int64_t> lead = std::nullopt);

size_t attention_grad_scratch_bytes(const AttentionShape& shape, int threads);
struct AttentionGrad {
  const void *q, *k, *v, *out, *lse, *dout;
  void *dq, *dk, *dv;
};
// An lse beyond 128 or -128 has too few digits as an f32. For a row with such an lse the gradient
// computes the scores twice: first to find the largest score and the sum separately. It does not
// where the keys are only some of those that the lse covers, as with a lead.
void attention_grad(Parallel& par, const AttentionShape& shape, const AttentionGrad& tensors,
                    void* scratch, std::optional<int64_t> lead = std::nullopt);

// One query against a cache: q[batch, 1, dim], k and v [batch, seq_max, dim] of which the first
// `length` positions count (clamped to [0, seq_max]) -> out[batch, 1, dim]. shape.seq_k is seq_max,
// seq_q is 1; causal has no meaning.
size_t attention_decode_scratch_bytes(const AttentionShape& shape, int threads);
void attention_decode(Parallel& par, const AttentionShape& shape, int64_t length, const void* q,
                      const void* k, const void* v, void* out, void* scratch);

}  // namespace gangway
