// The gradient of attention in bf16 on the matrix unit, summed in f32, behind attention_delta() of
// attention_grad.cu: a block for each tile of queries gives dq, one for each tile of keys dk and
// dv. Weights and the scores' gradients stay in registers, and are rounded to bf16 before they are
// multiplied; results are scaled at the end.
//
// The other operand of a tile comes in steps, each of which is loaded while the one before it is
// multiplied.
#include "executor/devices/cuda/kernels/tiled/attention_panel.h"

namespace gangway::cuda {

constexpr int32_t kStep = 32;  // Rows of a step.

struct GradInputs {
  Global<const bf16> q, k, v, dout;
  Global<const float> lse, delta;
};

// Two panels of kRows rows each, one behind the other: queries and dout, or keys and values.
template <int32_t kDim, int32_t kRows>
struct PanelPair {
  static constexpr int32_t kEights = 2 * Panel<kDim>::eights(kRows);

  Panel<kDim> first, second;

  GW_DEVICE explicit PanelPair(Shared<Eight> memory)
      : first(memory), second(memory + Panel<kDim>::eights(kRows)) {}

  // Begins to copy kRows rows from `at` on; rows behind the last become zeros.
  GW_DEVICE void fetch_queries(AsyncCopies& copies, const GradInputs& in, const AttentionSize& size,
                               const HeadTile& place, int64_t at) const {
    const int32_t rows = least(kRows, size.seq_q - at);
    first.template fetch<kRows>(copies, in.q + place.offset(size, size.seq_q, size.stride_q, at),
                                size.stride_q, rows, size.head_dim);
    second.template fetch<kRows>(copies,
                                 in.dout + place.offset(size, size.seq_q, size.stride_out, at),
                                 size.stride_out, rows, size.head_dim);
  }
  GW_DEVICE void fetch_keys(AsyncCopies& copies, const GradInputs& in, const AttentionSize& size,
                            const HeadTile& place, int64_t at) const {
    const int32_t rows = least(kRows, size.seq_k - at);
    first.template fetch<kRows>(copies, in.k + place.offset(size, size.seq_k, size.stride_k, at),
                                size.stride_k, rows, size.head_dim);
    second.template fetch<kRows>(copies, in.v + place.offset(size, size.seq_k, size.stride_v, at),
                                 size.stride_v, rows, size.head_dim);
  }
};

// Sets scores that the mask hides to 0.
template <int32_t kColumns>
GW_DEVICE void hide(Scores<kColumns>& scores, const Mask& mask) {
  GW_UNROLL for (int32_t j = 0; j < kColumns / 8; ++j) {
    GW_UNROLL for (int32_t i = 0; i < 4; ++i) scores[j][i] = mask.sees(j, i) ? scores[j][i] : 0;
  }
}

// dq of a tile of queries.
template <int32_t kDim>
GW_DEVICE void grad_q(Shared<Eight> memory, const GradInputs& in, Global<bf16> dq,
                      const AttentionSize& size) {
  using Stage = PanelPair<kDim, kStep>;
  static_assert(2 * Stage::kEights == PanelPair<kDim, kMatrixTile>::kEights);
  const HeadTile place = query_tile(size);
  const float scale = static_cast<float>(size.scale);
  const int64_t seen = keys_seen(size, place.first + place.rows);
  float lse[2] = {}, delta[2] = {};
  GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
    const int32_t row = first_row_of_warp() + 8 * below + row_of_lane();
    if (row >= place.rows) continue;
    const float sum = in.lse[place.row(size, place.first + row)];
    lse[below] = sum * kLog2E;
    delta[below] = in.delta[place.row(size, place.first + row)];
  }
  // Queries come through the memory of keys, which have not been fetched yet.
  AsyncCopies copies;
  const PanelPair<kDim, kMatrixTile> tile(memory);
  tile.fetch_queries(copies, in, size, place, place.first);
  copies.wait();
  sync_block();
  PanelRow<kDim> queries, douts;
  load_rows<kDim>(queries, tile.first);
  load_rows<kDim>(douts, tile.second);
  sync_block();
  if (seen > 0) Stage(memory).fetch_keys(copies, in, size, place, 0);
  HeadSums<kDim> sums = {};
  int32_t stage = 0;
  for (int64_t first = 0; first < seen; first += kStep, stage ^= 1) {
    copies.wait();
    sync_block();  // This step has arrived, and nobody reads the one before it any more.
    if (first + kStep < seen)
      Stage(memory + (stage ^ 1) * Stage::kEights)
          .fetch_keys(copies, in, size, place, first + kStep);
    const Stage keys(memory + stage * Stage::kEights);
    Scores<kStep> scores = {}, grads = {};
    multiply_rows<kDim, kStep>(scores, queries, keys.first);
    multiply_rows<kDim, kStep>(grads, douts, keys.second);
    GW_UNROLL for (int32_t j = 0; j < kStep / 8; ++j) {
      GW_UNROLL for (int32_t i = 0; i < 4; ++i) {
        const float weight = power_of_two(scores[j][i] * (scale * kLog2E) - lse[i / 2]);
        grads[j][i] = weight * (grads[j][i] - delta[i / 2]);
      }
    }
    const Mask mask{least(kStep, size.seq_k - first),
                    reach_of(size, place.first, first) + first_row_of_warp(), true};
    if (mask.columns < kStep || mask.reach < kStep - 1) hide<kStep>(grads, mask);
    add_weighted<kDim, kStep>(sums, grads, keys.first);
  }
  store_rows<kDim>(dq + place.offset(size, size.seq_q, size.stride_q, place.first), size.stride_q,
                   sums, {scale, scale}, place.rows, size.head_dim);
}

// One step of queries that a tile of keys is multiplied with.
template <int32_t kDim>
struct QueryStep {
  using Rows = PanelPair<kDim, kStep>;
  static constexpr int32_t kEights = Rows::kEights + 2 * kStep * 4 / 16;

  Rows rows;
  Shared<float> lse;  // lse of the step's queries, then delta.

  GW_DEVICE explicit QueryStep(Shared<Eight> memory)
      : rows(memory), lse(as_vectors<float>(memory + Rows::kEights)) {}

  GW_DEVICE void fetch(AsyncCopies& copies, const GradInputs& in, const AttentionSize& size,
                       const HeadTile& place, int64_t at) const {
    rows.fetch_queries(copies, in, size, place, at);
    const auto word = static_cast<int32_t>(thread_index().x);
    const int32_t row = word % kStep;
    const bool there = at + row < size.seq_q;
    const Global<const float> from = word < kStep ? in.lse : in.delta;
    if (word < 2 * kStep)
      copies.add(lse + word, from + (there ? place.row(size, at + row) : 0), there);
  }
  // For the columns 8 j + 2 t and the one behind it.
  GW_DEVICE Strip<float, 2> lse_of(int32_t j) const { return of_columns(lse, j); }
  GW_DEVICE Strip<float, 2> delta_of(int32_t j) const { return of_columns(lse + kStep, j); }

 private:
  GW_DEVICE static Strip<float, 2> of_columns(Shared<const float> from, int32_t j) {
    return as_vectors<const Strip<float, 2>>(from + (8 * j + column_of_lane()))[0];
  }
};

template <int32_t kDim>
struct GradSums {
  PanelRow<kDim> key_rows, value_rows;
  HeadSums<kDim> keys = {}, values = {};

  // Adds the contribution of queries from `query` on to the tile of keys. Scores are transposed: a
  // row for each key.
  GW_DEVICE void add(const QueryStep<kDim>& step, const AttentionSize& size, const HeadTile& place,
                     int64_t query) {
    const float scale = static_cast<float>(size.scale) * kLog2E;
    Scores<kStep> weights = {}, grads = {};
    multiply_rows<kDim, kStep>(weights, key_rows, step.rows.first);
    GW_UNROLL for (int32_t j = 0; j < kStep / 8; ++j) {
      const Strip<float, 2> lse = step.lse_of(j);
      GW_UNROLL for (int32_t i = 0; i < 4; ++i) weights[j][i] =
          power_of_two(weights[j][i] * scale - lse.at[i % 2] * kLog2E);
    }
    const Mask mask{least(kStep, size.seq_q - query),
                    reach_of(size, query, place.first) - first_row_of_warp(), false};
    const bool hidden = mask.columns < kStep || mask.reach < kWarpRows - 1;
    if (hidden) hide<kStep>(weights, mask);
    add_weighted<kDim, kStep>(values, weights, step.rows.second);
    multiply_rows<kDim, kStep>(grads, value_rows, step.rows.second);
    GW_UNROLL for (int32_t j = 0; j < kStep / 8; ++j) {
      const Strip<float, 2> delta = step.delta_of(j);
      GW_UNROLL for (int32_t i = 0; i < 4; ++i) grads[j][i] =
          weights[j][i] * (grads[j][i] - delta.at[i % 2]);
    }
    if (hidden) hide<kStep>(grads, mask);
    add_weighted<kDim, kStep>(keys, grads, step.rows.first);
  }
};

// dk and dv of a tile of keys.
template <int32_t kDim>
GW_DEVICE void grad_kv(Shared<Eight> memory, const GradInputs& in, Global<bf16> dk, Global<bf16> dv,
                       const AttentionSize& size) {
  using Step = QueryStep<kDim>;
  const HeadTile place(size, size.seq_k);
  // The first query that sees one of the keys.
  const int64_t seeing = size.causal ? place.first - size.lead : 0;
  int64_t first = seeing > 0 ? seeing / kStep * kStep : 0;
  // Keys come through the memory of queries, which have not been fetched yet.
  AsyncCopies copies;
  const PanelPair<kDim, kMatrixTile> tile(memory);
  tile.fetch_keys(copies, in, size, place, place.first);
  copies.wait();
  sync_block();
  GradSums<kDim> sums;
  load_rows<kDim>(sums.key_rows, tile.first);
  load_rows<kDim>(sums.value_rows, tile.second);
  sync_block();
  if (first < size.seq_q) Step(memory).fetch(copies, in, size, place, first);
  int32_t stage = 0;
  for (; first < size.seq_q; first += kStep, stage ^= 1) {
    copies.wait();
    sync_block();  // This step has arrived, and nobody reads the one before it any more.
    if (first + kStep < size.seq_q)
      Step(memory + (stage ^ 1) * Step::kEights).fetch(copies, in, size, place, first + kStep);
    sums.add(Step(memory + stage * Step::kEights), size, place, first);
  }
  const float scale = static_cast<float>(size.scale);
  store_rows<kDim>(dk + place.offset(size, size.seq_k, size.stride_k, place.first), size.stride_k,
                   sums.keys, {scale, scale}, place.rows, size.head_dim);
  store_rows<kDim>(dv + place.offset(size, size.seq_k, size.stride_v, place.first), size.stride_v,
                   sums.values, {1, 1}, place.rows, size.head_dim);
}

// `q_start`, `k_start`: read where size.has_starts alone.
template <int32_t kDim>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kAttentionThreads, kDim <= 64 ? 3 : 2)
    attention_grad_q_bf16(Global<const bf16> q, Global<const bf16> k, Global<const bf16> v,
                          Global<const float> lse, Global<const bf16> dout,
                          Global<const float> delta, Global<const int32_t> q_start,
                          Global<const int32_t> k_start, Global<bf16> dq, AttentionSize size) {
  constexpr int32_t kEights = PanelPair<kDim, kMatrixTile>::kEights;
  GW_SHARED(Eight, memory, kEights);
  grad_q<kDim>(Shared<Eight>{memory}, {q, k, v, dout, lse, delta}, dq,
               from_starts(size, q_start, k_start));
}
template <int32_t kDim>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kAttentionThreads, kDim <= 64 ? 3 : 2)
    attention_grad_kv_bf16(Global<const bf16> q, Global<const bf16> k, Global<const bf16> v,
                           Global<const float> lse, Global<const bf16> dout,
                           Global<const float> delta, Global<const int32_t> q_start,
                           Global<const int32_t> k_start, Global<bf16> dk, Global<bf16> dv,
                           AttentionSize size) {
  GW_SHARED(Eight, memory, 2 * QueryStep<kDim>::kEights);
  grad_kv<kDim>(Shared<Eight>{memory}, {q, k, v, dout, lse, delta}, dk, dv,
                from_starts(size, q_start, k_start));
}

GW_KERNEL_TABLE(attention_grad_bf16,
                GW_INSTANCE("attention_grad_q_bf16_32", attention_grad_q_bf16<32>),
                GW_INSTANCE("attention_grad_q_bf16_64", attention_grad_q_bf16<64>),
                GW_INSTANCE("attention_grad_q_bf16_96", attention_grad_q_bf16<96>),
                GW_INSTANCE("attention_grad_q_bf16_128", attention_grad_q_bf16<128>),
                GW_INSTANCE("attention_grad_kv_bf16_32", attention_grad_kv_bf16<32>),
                GW_INSTANCE("attention_grad_kv_bf16_64", attention_grad_kv_bf16<64>),
                GW_INSTANCE("attention_grad_kv_bf16_96", attention_grad_kv_bf16<96>),
                GW_INSTANCE("attention_grad_kv_bf16_128", attention_grad_kv_bf16<128>));

}  // namespace gangway::cuda
