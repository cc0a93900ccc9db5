// Attention of bf16 on a machine that multiplies pairs of it (vdpbf16ps): forward and backward of
// one head.
//
// Operands of products, the probabilities too, are bf16, in pairs along the sum; scores,
// exponentials and sums are f32. Queries are not scaled when packed, as they would lose bits:
// scores are.

// x[n, dim] -> y[n, (dim + 1) / 2] pairs along dim.
inline void pack_pairs_along(const bf16* x, int64_t stride, int64_t n, int64_t dim, uint32_t* y) {
  const int64_t lines = (dim + 1) / 2;
  for (int64_t r = 0; r < n; ++r, x += stride, y += lines) {
    y[lines - 1] = 0;
    __builtin_memcpy(y, x, static_cast<size_t>(dim) * 2);
  }
}

// x[n, dim] -> panels of kPanelCols positions each, [(dim + 1) / 2, kPanelCols] pairs along dim.
inline void pack_pairs_transposed(const bf16* x, int64_t stride, int64_t n, int64_t dim,
                                  uint32_t* y) {
  for (int64_t j = 0; j < n; j += kPanelCols) {
    const int64_t cols = n - j < kPanelCols ? n - j : kPanelCols;
    pack_columns<vu, 2>(x + j * stride, stride, dim, cols, y + j * ((dim + 1) / 2));
  }
}

// c[m, n] = a[m, lines] x panels of n columns.
inline void panels_product(const uint32_t* a, const uint32_t* panels, int64_t lines, float* c,
                           int64_t m, int64_t n) {
  for (int64_t j = 0; j < n; j += kPanelCols) {
    const int64_t cols = n - j < kPanelCols ? n - j : kPanelCols;
    gemm<Pairs<true>>(
        {a, lines, 1, panels + j * lines, kPanelCols, c + j, n, m, cols, lines, false});
  }
}

// Scores behind the visible ones give exp = 0, so that loops run over whole vectors.
inline void hide_behind(float* p, int64_t visible, float scale) {
  const float hidden = scale < 0 ? kInfinity<float> : -kInfinity<float>;
  for (int64_t i = visible; i < round_up(visible, kLanes); ++i) p[i] = hidden;
}

// One row of scores -> bf16 exp(scale * score - max so far), in place; as online_softmax of plain
// numbers.
inline float online_softmax_pairs(float* p, int64_t visible, int64_t width, float scale, float& top,
                                  float& sum) {
  bf16* const to = reinterpret_cast<bf16*>(p);
  const int64_t whole = round_up(visible, kLanes);
  float factor = 1;
  if (visible > 0) {
    hide_behind(p, visible, scale);
    vf best = vf{} - kInfinity<float>;
    for (int64_t i = 0; i < whole; i += kLanes) best = plain_max(best, load(p + i) * scale);
    const float before = top, here = max_lanes(best);
    top = here > before ? here : before;
    factor = exp_of(vf{} + (before - top))[0];
    vf total = {};
    for (int64_t i = 0; i < whole; i += kLanes) {
      const vf e = exp_of(load(p + i) * scale - top);
      total += e;
      store_raw(to + i, to_bf16_native(e));
    }
    sum = sum * factor + sum_lanes(total);
  }
  for (int64_t i = whole; i < width; i += kLanes) store_raw(to + i, vh{});
  return factor;
}

inline void attention_pairs(const AttentionHead& h) {
  const int64_t dim = h.head_dim, wide = padded(dim), lines = (dim + 1) / 2;
  const auto scale = static_cast<float>(h.scale);
  const auto *hq = static_cast<const bf16*>(h.q), *hk = static_cast<const bf16*>(h.k);
  auto* o = static_cast<float*>(h.scratch);                       // [kBlockQ, wide]
  float* p = o + kBlockQ * wide;                                  // [kBlockQ, width]
  auto* vp = reinterpret_cast<uint32_t*>(p + kBlockQ * kBlockK);  // [seq_k / 2, wide]
  uint32_t* q = vp + (h.seq_k + 1) / 2 * wide;                    // [kBlockQ, lines]
  uint32_t* kt = q + kBlockQ * lines;                             // panels of [lines, kPanelCols]
  pack_pairs_transposed(hk, h.stride_k, h.seq_k, dim, kt);
  pack_pairs_of_rows(static_cast<const bf16*>(h.v), h.stride_v, h.seq_k, dim, wide, vp);

  for (int64_t q0 = 0; q0 < h.seq_q; q0 += kBlockQ) {
    const int64_t rows = h.seq_q - q0 < kBlockQ ? h.seq_q - q0 : kBlockQ;
    pack_pairs_along(hq + q0 * h.stride_q, h.stride_q, rows, dim, q);
    float top[kBlockQ], sum[kBlockQ];
    for (int64_t r = 0; r < rows; ++r) top[r] = -kInfinity<float>, sum[r] = 0;
    for (int64_t i = 0; i < rows * wide; ++i) o[i] = 0;
    const int64_t last = visible_keys(h, q0 + rows - 1);
    for (int64_t k0 = 0; k0 < last; k0 += kBlockK) {
      const int64_t count = last - k0 < kBlockK ? last - k0 : kBlockK;
      const int64_t width = padded(count);
      panels_product(q, kt + k0 * lines, lines, p, rows, width);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = clamp_index(visible_keys(h, q0 + r) - k0, 0, count);
        const float factor =
            online_softmax_pairs(p + r * width, visible, width, scale, top[r], sum[r]);
        for (int64_t i = 0; k0 > 0 && i < wide; i += kLanes) {
          store(o + r * wide + i, load(o + r * wide + i) * factor);
        }
      }
      // A row's pairs take half of what its scores took.
      gemm<Pairs<true>>({reinterpret_cast<const uint32_t*>(p), width, 1, vp + k0 / 2 * wide, wide,
                         o, wide, rows, wide, (count + 1) / 2, k0 > 0});
    }
    for (int64_t r = 0; r < rows; ++r) {
      unpack_rows<bf16>(o + r * wide, 1, dim, sum[r] == 0 ? 0.0f : 1 / sum[r],
                        static_cast<bf16*>(h.out) + (q0 + r) * h.stride_out, h.stride_out);
      if (h.lse != nullptr) {
        static_cast<float*>(h.lse)[q0 + r] =
            sum[r] == 0 ? -kInfinity<float> : top[r] + log_scalar(sum[r]);
      }
    }
  }
}

// Facts of one row of queries: the number of keys that it sees, rounded up to whole vectors, and
// what its gradient needs.
struct PairsRow {
  int64_t whole;
  RowTop<float> top;
  float delta;
};

// Two rows of scores and of dp -> p and ds = p * (dp - delta), in place of both: in scores[0] the
// pairs of p of both rows, in scores[1] those of ds, and ds of each row by itself in its own half.
inline void softmax_backward_pairs(float* scores, float* ds, int64_t width, float scale,
                                   const PairsRow* rows) {
  uint32_t* const p_pairs = reinterpret_cast<uint32_t*>(scores);
  uint32_t* const ds_pairs = p_pairs + width;
  bf16* const own[2] = {reinterpret_cast<bf16*>(ds), reinterpret_cast<bf16*>(ds + width)};
  for (int64_t i = 0; i < width; i += kLanes) {
    vu p_pair = {}, ds_pair = {};
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      vh d = {};
      if (i < rows[r].whole) {
        const vf e = exp_of(load(scores + r * width + i) * scale - rows[r].top.largest -
                            rows[r].top.log_sum);
        d = to_bf16_native(e * (load(ds + r * width + i) - rows[r].delta));
        p_pair |= widen(to_bf16_native(e)) << (16 * r);
        ds_pair |= widen(d) << (16 * r);
      }
      store_raw(own[r] + i, d);
    }
    store_raw(p_pairs + i, p_pair);
    store_raw(ds_pairs + i, ds_pair);
  }
}

inline void attention_grad_pairs(const AttentionHead& h) {
  const int64_t dim = h.head_dim, wide = padded(dim), lines = (dim + 1) / 2;
  const int64_t key_lines = lines * round_up(h.seq_k, kPanelCols);
  const auto scale = static_cast<float>(h.scale);
  auto* dk = static_cast<float*>(h.scratch);                           // [seq_k, wide]
  float* dv = dk + h.seq_k * wide;                                     // [seq_k, wide]
  float* dq = dv + h.seq_k * wide;                                     // [kBlockQ, wide]
  float* p = dq + kBlockQ * wide;                                      // [kBlockQ, width]
  float* ds = p + kBlockQ * kBlockK;                                   // [kBlockQ, width]
  auto* q_rows = reinterpret_cast<uint32_t*>(ds + kBlockQ * kBlockK);  // [kBlockQ / 2, wide]
  uint32_t* go_rows = q_rows + kBlockQ / 2 * wide;                     // [kBlockQ / 2, wide]: dout
  uint32_t* kp = go_rows + kBlockQ / 2 * wide;                         // [seq_k / 2, wide]
  uint32_t* q = kp + (h.seq_k + 1) / 2 * wide;                         // [kBlockQ, lines]
  uint32_t* go = q + kBlockQ * lines;                                  // [kBlockQ, lines]: dout
  uint32_t* kt = go + kBlockQ * lines;  // panels of [lines, kPanelCols]
  uint32_t* vt = kt + key_lines;        // panels of [lines, kPanelCols]
  pack_pairs_transposed(static_cast<const bf16*>(h.k), h.stride_k, h.seq_k, dim, kt);
  pack_pairs_transposed(static_cast<const bf16*>(h.v), h.stride_v, h.seq_k, dim, vt);
  pack_pairs_of_rows(static_cast<const bf16*>(h.k), h.stride_k, h.seq_k, dim, wide, kp);
  for (int64_t i = 0; i < 2 * h.seq_k * wide; ++i) dk[i] = 0;

  for (int64_t q0 = 0; q0 < h.seq_q; q0 += kBlockQ) {
    const int64_t rows = h.seq_q - q0 < kBlockQ ? h.seq_q - q0 : kBlockQ,
                  row_pairs = (rows + 1) / 2;
    const bf16* hq = static_cast<const bf16*>(h.q) + q0 * h.stride_q;
    const bf16* dout = static_cast<const bf16*>(h.dout) + q0 * h.stride_out;
    const bf16* out = static_cast<const bf16*>(h.out) + q0 * h.stride_out;
    pack_pairs_along(hq, h.stride_q, rows, dim, q);
    pack_pairs_along(dout, h.stride_out, rows, dim, go);
    pack_pairs_of_rows(hq, h.stride_q, rows, dim, wide, q_rows);
    pack_pairs_of_rows(dout, h.stride_out, rows, dim, wide, go_rows);
    const auto score = [&](int64_t k0, int64_t count) {
      panels_product(q, kt + k0 * lines, lines, p, rows, padded(count));
    };
    RowTop<float> tops[kBlockQ];
    find_tops(h, q0, rows, tops, score,
              [&](int64_t r, int64_t visible, int64_t width, float& largest, float& sum) {
                online_softmax_pairs(p + r * width, visible, width, scale, largest, sum);
              });
    PairsRow row[kBlockQ + 1] = {};  // One more: the last pair may be half empty.
    for (int64_t r = 0; r < rows; ++r)
      row[r] = {0, tops[r], row_dot(dout + r * h.stride_out, out + r * h.stride_out, dim)};
    for (int64_t i = 0; i < rows * wide; ++i) dq[i] = 0;
    const int64_t last = visible_keys(h, q0 + rows - 1);
    for (int64_t k0 = 0; k0 < last; k0 += kBlockK) {
      const int64_t count = last - k0 < kBlockK ? last - k0 : kBlockK, width = padded(count);
      score(k0, count);
      panels_product(go, vt + k0 * lines, lines, ds, rows, width);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = clamp_index(visible_keys(h, q0 + r) - k0, 0, count);
        hide_behind(p + r * width, visible, scale);
        row[r].whole = round_up(visible, kLanes);
      }
      for (int64_t r = 0; r < rows; r += 2) {
        softmax_backward_pairs(p + r * width, ds + r * width, width, scale, row + r);
      }
      const auto* pairs = reinterpret_cast<const uint32_t*>(p);  // Alternately p's and ds's.
      gemm<Pairs<true>>(
          {pairs, 1, 2 * width, go_rows, wide, dv + k0 * wide, wide, count, wide, row_pairs, true});
      gemm<Pairs<true>>({pairs + width, 1, 2 * width, q_rows, wide, dk + k0 * wide, wide, count,
                         wide, row_pairs, true});
      gemm<Pairs<true>>({reinterpret_cast<const uint32_t*>(ds), width, 1, kp + k0 / 2 * wide, wide,
                         dq, wide, rows, wide, (count + 1) / 2, k0 > 0});
    }
    unpack_rows(dq, rows, dim, scale, static_cast<bf16*>(h.dq) + q0 * h.stride_q, h.stride_q);
  }
  unpack_rows(dk, h.seq_k, dim, scale, static_cast<bf16*>(h.dk), h.stride_k);
  unpack_rows(dv, h.seq_k, dim, 1.0f, static_cast<bf16*>(h.dv), h.stride_v);
}

void attention_head(const AttentionHead& head) {
  if (head.dtype == DType::kBF16 && head.native) return attention_pairs(head);
  with_float(head.dtype, [&](auto s) { attention_typed<decltype(s)>(head); });
}
void attention_grad_head(const AttentionHead& head) {
  if (head.dtype == DType::kBF16 && head.native) return attention_grad_pairs(head);
  with_float(head.dtype, [&](auto s) { attention_grad_typed<decltype(s)>(head); });
}
