// One head of attention, forward, backward and for one query against a cache. Operands are packed
// into the compute type first: rows of a head are a strided view in memory, and products want them
// dense and padded to whole vectors.

constexpr int64_t kBlockQ = kAttentionBlockQ, kBlockK = kAttentionBlockK;

inline int64_t padded(int64_t n) { return round_up(n, kAttentionPad); }

// x[n, dim] with a row stride -> y[n, padded(dim)] * scale; zeros behind each row.
template <class S>
inline void pack_rows(const S* x, int64_t stride, int64_t n, int64_t dim, ScalarOf<S> scale,
                      ScalarOf<S>* y) {
  const int64_t width = padded(dim);
  for (int64_t r = 0; r < n; ++r, x += stride, y += width) {
    for_vectors<VecOf<S>>(
        dim, [&](int64_t i, auto... tail) { store(y + i, load(x + i, tail...) * scale, tail...); });
    for (int64_t i = dim; i < width; ++i) y[i] = 0;
  }
}

// x[n, dim] -> y[dim, padded(n)], zeros behind each row. Sixteen rows at a time fill whole cache
// lines of y.
template <class S>
inline void pack_transposed(const S* x, int64_t stride, int64_t n, int64_t dim, ScalarOf<S>* y) {
  const int64_t width = padded(n);
  for (int64_t r = 0; r < width; r += 16) {
    const int64_t rows = n - r < 16 ? n - r : 16;
    for (int64_t i = 0; i < dim; ++i) {
      for (int64_t rr = 0; rr < 16; ++rr) {
        y[i * width + r + rr] = rr < rows ? value(x + (r + rr) * stride + i) : ScalarOf<S>{0};
      }
    }
  }
}

template <class S>
inline void unpack_rows(const ScalarOf<S>* x, int64_t n, int64_t dim, ScalarOf<S> scale, S* y,
                        int64_t stride) {
  const int64_t width = padded(dim);
  for (int64_t r = 0; r < n; ++r, x += width, y += stride) {
    for_vectors<VecOf<S>>(
        dim, [&](int64_t i, auto... tail) { store(y + i, load(x + i, tail...) * scale, tail...); });
  }
}

inline int64_t clamp_index(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

// Keys that query i sees: [0, visible).
inline int64_t visible_keys(const AttentionHead& h, int64_t i) {
  return h.causal ? clamp_index(i + 1 + h.lead, 0, h.seq_k) : h.seq_k;
}

// One row of scores -> exp(score - max so far); the running maximum and sum follow, and the factor
// for older parts.
template <class T, class V>
inline T online_softmax(T* p, int64_t visible, int64_t width, T& top, T& sum) {
  const T before = top;
  T factor = 1;
  const int64_t whole = round_up(visible, kLanesOf<V>);
  if (visible > 0) {
    // Scores behind the visible ones become -inf, so that all loops run over whole vectors.
    for (int64_t i = visible; i < whole; ++i) p[i] = -kInfinity<T>;
    const T here = row_max(p, whole);
    top = here > before ? here : before;
    factor = exp_of(V{} + (before - top))[0];
    V total = {};
    for (int64_t i = 0; i < whole; i += kLanesOf<V>) {
      const V e = exp_of(load(p + i) - top);
      total += e;
      store(p + i, e);
    }
    sum = sum * factor + sum_lanes(total);
  }
  for (int64_t i = whole; i < width; ++i) p[i] = 0;
  return factor;
}

template <class S>
inline void attention_typed(const AttentionHead& h) {
  using T = ScalarOf<S>;
  using V = VecOf<S>;
  const int64_t dim = h.head_dim, wide = padded(dim), keys = padded(h.seq_k);
  T* kt = static_cast<T*>(h.scratch);  // [dim, keys]
  T* vp = kt + dim * keys;             // [seq_k, wide]
  T* q = vp + h.seq_k * wide;          // [kBlockQ, wide]
  T* o = q + kBlockQ * wide;           // [kBlockQ, wide]
  T* p = o + kBlockQ * wide;           // [kBlockQ, kBlockK]
  pack_transposed(static_cast<const S*>(h.k), h.stride_k, h.seq_k, dim, kt);
  pack_rows(static_cast<const S*>(h.v), h.stride_v, h.seq_k, dim, T{1}, vp);

  for (int64_t q0 = 0; q0 < h.seq_q; q0 += kBlockQ) {
    const int64_t rows = h.seq_q - q0 < kBlockQ ? h.seq_q - q0 : kBlockQ;
    pack_rows(static_cast<const S*>(h.q) + q0 * h.stride_q, h.stride_q, rows, dim,
              static_cast<T>(h.scale), q);
    T top[kBlockQ], sum[kBlockQ];
    for (int64_t r = 0; r < rows; ++r) top[r] = -kInfinity<T>, sum[r] = 0;
    for (int64_t i = 0; i < rows * wide; ++i) o[i] = 0;
    const int64_t last = visible_keys(h, q0 + rows - 1);
    for (int64_t k0 = 0; k0 < last; k0 += kBlockK) {
      const int64_t count = last - k0 < kBlockK ? last - k0 : kBlockK;
      const int64_t width = padded(count);
      gemm<Plain<V>>({q, wide, 1, kt + k0, keys, p, kBlockK, rows, width, dim, false});
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = clamp_index(visible_keys(h, q0 + r) - k0, 0, count);
        const T factor = online_softmax<T, V>(p + r * kBlockK, visible, width, top[r], sum[r]);
        if (k0 > 0) {
          for_vectors<V>(wide, [&](int64_t i, auto...) {
            store(o + r * wide + i, load(o + r * wide + i) * factor);
          });
        }
      }
      gemm<Plain<V>>({p, kBlockK, 1, vp + k0 * wide, wide, o, wide, rows, wide, count, k0 > 0});
    }
    for (int64_t r = 0; r < rows; ++r) {
      unpack_rows<S>(o + r * wide, 1, dim, sum[r] == 0 ? T{0} : 1 / sum[r],
                     static_cast<S*>(h.out) + (q0 + r) * h.stride_out, h.stride_out);
      if (h.lse != nullptr) {
        static_cast<T*>(h.lse)[q0 + r] = sum[r] == 0 ? -kInfinity<T> : top[r] + log_scalar(sum[r]);
      }
    }
  }
}

// Whether the logsumexp of a row of scores, kept as one f32, lies so far from 0 that the digits
// left behind its point are too few for probabilities.
inline bool lacks_digits(float lse) { return (lse > 128 || lse < -128) && lse - lse == 0; }
inline bool lacks_digits(double) { return false; }

// Whether the row's logsumexp covers exactly the keys of the row's scores: `top` and `lse` then
// agree but for roundings. In a ring, where the scores are those of a part of the keys, they do
// not.
template <class T>
inline bool is_of_all(const RowTop<T>& top, T lse) {
  const T apart = top.largest - lse + top.log_sum, most = (lse < 0 ? -lse : lse) / (1 << 22);
  return apart <= most && -apart <= most;
}

// Finds what to subtract from the scores of each row of a block: the row's logsumexp, or, where one
// row's logsumexp lacks digits and rows may be whole, the largest score and the logarithm of the
// sum as two numbers. To find these, calls `score(k0, count)`, which computes scores, for each
// block of keys and then `find(r, visible, width, largest, sum)` for each row.
template <class T, class Score, class Find>
inline void find_tops(const AttentionHead& h, int64_t q0, int64_t rows, RowTop<T>* tops,
                      const Score& score, const Find& find) {
  bool any_lacks = false;
  for (int64_t r = 0; r < rows; ++r) {
    tops[r] = {static_cast<const T*>(h.lse)[q0 + r], 0};
    any_lacks |= lacks_digits(tops[r].largest);
  }
  if (!any_lacks || !h.whole_rows) return;
  T sums[kBlockQ] = {};
  for (int64_t r = 0; r < rows; ++r) tops[r].largest = -kInfinity<T>;
  const int64_t last = visible_keys(h, q0 + rows - 1);
  for (int64_t k0 = 0; k0 < last; k0 += kBlockK) {
    const int64_t count = last - k0 < kBlockK ? last - k0 : kBlockK;
    score(k0, count);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = clamp_index(visible_keys(h, q0 + r) - k0, 0, count);
      find(r, visible, padded(count), tops[r].largest, sums[r]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T lse = static_cast<const T*>(h.lse)[q0 + r];
    if (sums[r] > 0) tops[r].log_sum = log_scalar(sums[r]);
    if (!is_of_all(tops[r], lse)) tops[r] = {lse, 0};
  }
}

// One block of queries against one block of keys: p = softmax(scores), ds = p * (dp - delta).
template <class T, class V>
inline void softmax_backward_row(T* p, T* ds, int64_t visible, int64_t width, RowTop<T> top,
                                 T delta) {
  const int64_t whole = round_up(visible, kLanesOf<V>);
  for (int64_t i = visible; i < whole; ++i) p[i] = -kInfinity<T>;
  for (int64_t i = 0; i < whole; i += kLanesOf<V>) {
    const V e = exp_of(load(p + i) - top.largest - top.log_sum);
    store(p + i, e);
    store(ds + i, e * (load(ds + i) - delta));
  }
  for (int64_t i = whole; i < width; ++i) p[i] = 0, ds[i] = 0;
}

template <class S>
inline void attention_grad_typed(const AttentionHead& h) {
  using T = ScalarOf<S>;
  using V = VecOf<S>;
  const int64_t dim = h.head_dim, wide = padded(dim), keys = padded(h.seq_k);
  T* kt = static_cast<T*>(h.scratch);  // [dim, keys]
  T* vt = kt + dim * keys;             // [dim, keys]
  T* kp = vt + dim * keys;             // [seq_k, wide]
  T* dk = kp + h.seq_k * wide;         // [seq_k, wide]
  T* dv = dk + h.seq_k * wide;         // [seq_k, wide]
  T* q = dv + h.seq_k * wide;          // [kBlockQ, wide]: scaled
  T* go = q + kBlockQ * wide;          // [kBlockQ, wide]: dout
  T* dq = go + kBlockQ * wide;         // [kBlockQ, wide]
  T* p = dq + kBlockQ * wide;          // [kBlockQ, kBlockK]
  T* ds = p + kBlockQ * kBlockK;       // [kBlockQ, kBlockK]
  const T scale = static_cast<T>(h.scale);
  pack_transposed(static_cast<const S*>(h.k), h.stride_k, h.seq_k, dim, kt);
  pack_transposed(static_cast<const S*>(h.v), h.stride_v, h.seq_k, dim, vt);
  pack_rows(static_cast<const S*>(h.k), h.stride_k, h.seq_k, dim, T{1}, kp);
  for (int64_t i = 0; i < 2 * h.seq_k * wide; ++i) dk[i] = 0;

  for (int64_t q0 = 0; q0 < h.seq_q; q0 += kBlockQ) {
    const int64_t rows = h.seq_q - q0 < kBlockQ ? h.seq_q - q0 : kBlockQ;
    const S* dout = static_cast<const S*>(h.dout) + q0 * h.stride_out;
    const S* out = static_cast<const S*>(h.out) + q0 * h.stride_out;
    pack_rows(static_cast<const S*>(h.q) + q0 * h.stride_q, h.stride_q, rows, dim, scale, q);
    pack_rows(dout, h.stride_out, rows, dim, T{1}, go);
    for (int64_t i = 0; i < rows * wide; ++i) dq[i] = 0;
    const auto score = [&](int64_t k0, int64_t count) {
      gemm<Plain<V>>({q, wide, 1, kt + k0, keys, p, kBlockK, rows, padded(count), dim, false});
    };
    RowTop<T> tops[kBlockQ];
    find_tops(h, q0, rows, tops, score,
              [&](int64_t r, int64_t visible, int64_t width, T& largest, T& sum) {
                online_softmax<T, V>(p + r * kBlockK, visible, width, largest, sum);
              });
    const int64_t last = visible_keys(h, q0 + rows - 1);
    for (int64_t k0 = 0; k0 < last; k0 += kBlockK) {
      const int64_t count = last - k0 < kBlockK ? last - k0 : kBlockK;
      const int64_t width = padded(count);
      score(k0, count);
      gemm<Plain<V>>({go, wide, 1, vt + k0, keys, ds, kBlockK, rows, width, dim, false});
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = clamp_index(visible_keys(h, q0 + r) - k0, 0, count);
        const T delta = row_dot(dout + r * h.stride_out, out + r * h.stride_out, dim);
        softmax_backward_row<T, V>(p + r * kBlockK, ds + r * kBlockK, visible, width, tops[r],
                                   delta);
      }
      gemm<Plain<V>>({p, 1, kBlockK, go, wide, dv + k0 * wide, wide, count, wide, rows, true});
      gemm<Plain<V>>({ds, 1, kBlockK, q, wide, dk + k0 * wide, wide, count, wide, rows, true});
      gemm<Plain<V>>({ds, kBlockK, 1, kp + k0 * wide, wide, dq, wide, rows, wide, count, k0 > 0});
    }
    unpack_rows(dq, rows, dim, scale, static_cast<S*>(h.dq) + q0 * h.stride_q, h.stride_q);
  }
  unpack_rows(dk, h.seq_k, dim, T{1}, static_cast<S*>(h.dk), h.stride_k);
  unpack_rows(dv, h.seq_k, dim, T{1}, static_cast<S*>(h.dv), h.stride_v);
}

// Scratch: scores[seq_k], then a row for the query and one for the sum.
template <class S>
inline void attention_decode_typed(const AttentionHead& h) {
  using T = ScalarOf<S>;
  using V = VecOf<S>;
  T* scores = static_cast<T*>(h.scratch);
  T* q = scores + padded(h.seq_k);
  T* o = q + padded(h.head_dim);
  pack_rows(static_cast<const S*>(h.q), 0, 1, h.head_dim, static_cast<T>(h.scale), q);
  for (int64_t j = 0; j < h.seq_k; ++j) {
    const S* k = static_cast<const S*>(h.k) + j * h.stride_k;
    V sum = {};
    for_vectors<V>(h.head_dim, [&](int64_t i, auto... tail) {
      sum += load(q + i, tail...) * load(k + i, tail...);
    });
    scores[j] = sum_lanes(sum);
  }
  T top = -kInfinity<T>, total = 0;
  online_softmax<T, V>(scores, h.seq_k, padded(h.seq_k), top, total);
  for (int64_t i = 0; i < padded(h.head_dim); ++i) o[i] = 0;
  for (int64_t j = 0; j < h.seq_k; ++j) {
    const S* v = static_cast<const S*>(h.v) + j * h.stride_v;
    for_vectors<V>(h.head_dim, [&](int64_t i, auto... tail) {
      store(o + i, load(o + i, tail...) + load(v + i, tail...) * scores[j], tail...);
    });
  }
  unpack_rows(o, 1, h.head_dim, total == 0 ? T{0} : 1 / total, static_cast<S*>(h.out), 0);
}

void attention_decode_head(const AttentionHead& head) {
  with_float(head.dtype, [&](auto s) { attention_decode_typed<decltype(s)>(head); });
}
