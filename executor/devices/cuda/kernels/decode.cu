// One query against a cache of keys and values: a block for each head of each sequence.
//
//   q[batch, 1, heads * head_dim], k and v [batch, seq, heads * head_dim], length i32[] -> out as q
//
// The first `length` positions count; without any the result is zero. Scores are in dynamic shared
// memory, one for each position.
#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/math.h"

namespace gangway::cuda {

template <class T>
GW_DEVICE void decode(Global<const T> queries, Global<const T> keys, Global<const T> values,
                      Global<const int32_t> length, Global<T> out, int64_t heads, int64_t seq,
                      int64_t head_dim, double scale) {
  using W = WideOf<T>;
  GW_DYNAMIC_SHARED(W, scores);
  const int64_t dim = heads * head_dim, head = block_index().x % heads * head_dim;
  const int64_t batch = block_index().x / heads;
  const Global<const T> q = queries + (batch * dim + head);
  const Global<const T> k = keys + (batch * seq * dim + head),
                        v = values + (batch * seq * dim + head);
  const int32_t wanted = length[0];
  const int64_t n = wanted < 0 ? 0 : wanted > seq ? seq : wanted;
  W top = -static_cast<W>(INFINITY), sum = 0;
  for (int64_t j = thread_index().x; j < n; j += block_size().x) {
    W score = 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      const T x = q[d], y = k[j * dim + d];
      score += widen(x) * widen(y);
    }
    score *= static_cast<W>(scale);
    scores[j] = score;
    top = op_max(top, score);
  }
  top = reduce_block<Largest, W>(top, -static_cast<W>(INFINITY));
  for (int64_t j = thread_index().x; j < n; j += block_size().x) {
    const W score = scores[j];
    const W p = op_exp(score - top);
    scores[j] = p;
    sum += p;
  }
  sum = reduce_block<Sum, W>(sum, 0);
  for (int64_t d = thread_index().x; d < head_dim; d += block_size().x) {
    W mixed = 0;
    for (int64_t j = 0; j < n; ++j) {
      const W p = scores[j];
      const T y = v[j * dim + d];
      mixed += p * widen(y);
    }
    out[batch * dim + head + d] = narrow<T>(n > 0 ? mixed / sum : W(0));
  }
}

#define GW_OF_TYPE(of, type)                                                               \
  GW_KERNEL void attention_decode_##of(Global<const type> q, Global<const type> k,         \
                                       Global<const type> v, Global<const int32_t> length, \
                                       Global<type> out, int64_t heads, int64_t seq,       \
                                       int64_t head_dim, double scale) {                   \
    decode(q, k, v, length, out, heads, seq, head_dim, scale);                             \
  }
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

GW_KERNEL_TABLE(decode, GW_ENTRY(attention_decode_bf16), GW_ENTRY(attention_decode_f32),
                GW_ENTRY(attention_decode_f64));

}  // namespace gangway::cuda
