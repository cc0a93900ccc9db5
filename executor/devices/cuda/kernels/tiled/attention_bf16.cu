// Attention in bf16 on the matrix unit, summed in f32: a block for each tile of queries, whose
// scores, weights and sums stay in registers (FlashAttention-2). Weights are rounded to bf16 before
// they are multiplied with values; their totals are not.
//
// Values are loaded while queries and keys are multiplied, and the next keys while weights and
// values are multiplied. Keys have kDim elements in shared memory, zeros from size.head_dim on.
#include "executor/devices/cuda/kernels/tiled/attention_panel.h"

namespace gangway::cuda {

// One warp's 16 queries.
template <int32_t kDim>
struct Queries {
  PanelRow<kDim> rows;
  HeadSums<kDim> sums = {};
  // For rows g and g + 8 so far; totals only have this lane's columns.
  float largest[2] = {-infinity<float>(), -infinity<float>()}, total[2] = {};

  // Turns scores into weights, and scales down what has been summed. `scale`: of powers of two.
  GW_DEVICE void weigh(Scores<kMatrixTile>& scores, float scale) {
    GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
      float now = largest[below], more = 0;
      GW_UNROLL for (int32_t j = 0; j < kMatrixTile / 8; ++j) now =
          fmaxf(now, fmaxf(scores[j][2 * below], scores[j][2 * below + 1]));
      now = fmaxf(now, shuffle_xor(now, 1));
      now = fmaxf(now, shuffle_xor(now, 2));
      const float shift = now == -infinity<float>() ? 0 : now * scale;
      // Exactly 1 where nothing changed: shift is rounded, a product in a fused difference is not.
      const float by = largest[below] == now ? 1 : power_of_two((largest[below] - now) * scale);
      GW_UNROLL for (int32_t j = 0; j < kMatrixTile / 8; ++j) {
        GW_UNROLL for (int32_t i = 2 * below; i < 2 * below + 2; ++i) {
          scores[j][i] = power_of_two(scores[j][i] * scale - shift);
          more += scores[j][i];
        }
      }
      largest[below] = now;
      total[below] = total[below] * by + more;
      GW_UNROLL for (int32_t j = 0; j < kDim / 8; ++j) {
        sums[j][2 * below] *= by;
        sums[j][2 * below + 1] *= by;
      }
    }
  }

  GW_DEVICE void store(Global<bf16> out, Global<float> lse, const AttentionSize& size,
                       const HeadTile& place) {
    float by[2];
    GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
      float all = total[below];
      all += shuffle_xor(all, 1);
      all += shuffle_xor(all, 2);
      by[below] = all == 0 ? 0 : 1 / all;  // A query that saw no key gives zeros.
      const int32_t row = first_row_of_warp() + 8 * below + row_of_lane();
      if (row < place.rows && column_of_lane() == 0) {
        const float score = largest[below] * static_cast<float>(size.scale);
        lse[place.row(size, place.first + row)] = score + log(all);
      }
    }
    store_rows<kDim>(out + place.offset(size, size.seq_q, size.stride_out, place.first),
                     size.stride_out, sums, by, place.rows, size.head_dim);
  }
};

template <int32_t kDim>
GW_DEVICE void attend(Panel<kDim> keys, Panel<kDim> values, Global<const bf16> q,
                      Global<const bf16> k, Global<const bf16> v, Global<bf16> out,
                      Global<float> lse, const AttentionSize& size) {
  const HeadTile place = query_tile(size);
  const float scale = static_cast<float>(size.scale) * kLog2E;
  const int64_t seen = keys_seen(size, place.first + place.rows), dim = size.head_dim;
  AsyncCopies copies;
  const auto fetch = [&](const Panel<kDim>& panel, Global<const bf16> from, int64_t stride,
                         int64_t first) {
    panel.template fetch<kMatrixTile>(copies, from + first * stride, stride,
                                      least(kMatrixTile, size.seq_k - first), dim);
  };
  const Global<const bf16> k_head = k + place.offset(size, size.seq_k, size.stride_k, 0);
  const Global<const bf16> v_head = v + place.offset(size, size.seq_k, size.stride_v, 0);
  // Queries come through the memory of values, which have not been fetched yet.
  values.template fetch<kMatrixTile>(copies,
                                     q + place.offset(size, size.seq_q, size.stride_q, place.first),
                                     size.stride_q, place.rows, dim);
  if (seen > 0) fetch(keys, k_head, size.stride_k, 0);
  copies.wait();
  sync_block();
  Queries<kDim> queries;
  load_rows<kDim>(queries.rows, values);
  for (int64_t first = 0; first < seen; first += kMatrixTile) {
    copies.wait();
    sync_block();  // Keys have arrived, and nobody reads values any more.
    fetch(values, v_head, size.stride_v, first);
    Scores<kMatrixTile> scores = {};
    multiply_rows<kDim, kMatrixTile>(scores, queries.rows, keys);
    const Mask mask{least(kMatrixTile, size.seq_k - first),
                    reach_of(size, place.first, first) + first_row_of_warp(), true};
    if (mask.columns < kMatrixTile || mask.reach < kMatrixTile - 1) {
      GW_UNROLL for (int32_t j = 0; j < kMatrixTile / 8; ++j) {
        GW_UNROLL for (int32_t i = 0; i < 4; ++i) scores[j][i] =
            mask.sees(j, i) ? scores[j][i] : -infinity<float>();
      }
    }
    queries.weigh(scores, scale);
    copies.wait();
    sync_block();  // Values have arrived, and nobody reads keys any more.
    if (first + kMatrixTile < seen) fetch(keys, k_head, size.stride_k, first + kMatrixTile);
    add_weighted<kDim, kMatrixTile>(queries.sums, scores, values);
  }
  queries.store(out, lse, size, place);
}

// `q_start`, `k_start`: read where size.has_starts alone.
template <int32_t kDim>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kAttentionThreads, 3)
    attention_bf16(Global<const bf16> q, Global<const bf16> k, Global<const bf16> v,
                   Global<bf16> out, Global<float> lse, Global<const int32_t> q_start,
                   Global<const int32_t> k_start, AttentionSize size) {
  constexpr int32_t kEights = Panel<kDim>::eights(kMatrixTile);
  GW_SHARED(Eight, memory, 2 * kEights);
  const Shared<Eight> panels{memory};
  attend<kDim>(Panel<kDim>(panels), Panel<kDim>(panels + kEights), q, k, v, out, lse,
               from_starts(size, q_start, k_start));
}

GW_KERNEL_TABLE(attention_bf16, GW_INSTANCE("attention_bf16_32", attention_bf16<32>),
                GW_INSTANCE("attention_bf16_64", attention_bf16<64>),
                GW_INSTANCE("attention_bf16_96", attention_bf16<96>),
                GW_INSTANCE("attention_bf16_128", attention_bf16<128>));

}  // namespace gangway::cuda
