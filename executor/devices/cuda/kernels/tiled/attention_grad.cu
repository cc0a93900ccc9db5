// The gradient of attention in three kernels, none of which adds to memory that another block
// writes: attention_delta() keeps sum(out * dout) of each query, then attention_grad_q() takes a
// block for each tile of queries and attention_grad_kv() one for each tile of keys. Both compute
// the weights again from lse. If lse is far from 0 it has too few digits for that:
// attention_grad_q() then sums a row's weights, and keeps the logarithm, which is 0 except for the
// digits that lse lacks, for attention_grad_kv(): the row's shift.
#include "executor/devices/cuda/kernels/tiled/attention_tile.h"

namespace gangway::cuda {

template <class T>
GW_KERNEL_TEMPLATE void attention_delta(Global<const T> out, Global<const T> dout,
                                        Global<WideOf<T>> delta, AttentionSize size) {
  using W = WideOf<T>;
  const HeadTile place(size, size.seq_q);
  for (int32_t r = warp(); r < place.rows; r += warps()) {
    const int64_t row = place.offset(size, size.seq_q, size.stride_out, place.first + r);
    W sum = 0;
    for (int64_t c = lane(); c < size.head_dim; c += kWarpThreads)
      sum += wide_at(out, row + c) * wide_at(dout, row + c);
    sum = reduce_warp<Sum>(sum);
    if (lane() == 0) delta[place.row(size, place.first + r)] = sum;
  }
}

// Whether the digits of a logsumexp that are left behind its point are too few for probabilities.
GW_DEVICE bool lacks_digits(float lse) { return (lse > 128 || lse < -128) && lse - lse == 0; }
GW_DEVICE bool lacks_digits(double) { return false; }

// Whether a row's weights, of which `shift` is the logarithm of the sum, are all weights that its
// logsumexp covers: then they sum up to 1 except for roundings. Weights of a part of the keys do
// not.
template <class W>
GW_DEVICE bool is_of_all(W shift, W lse) {
  const W most = (lse < 0 ? -lse : lse) / (1 << 22);
  return shift <= most && -shift <= most;
}

template <class W>
GW_DEVICE void scale_rows(Tile<W> tile, Shared<W> factors, int32_t rows, int32_t columns) {
  for (int32_t r = warp(); r < rows; r += warps()) {
    const W factor = factors[r];
    for (auto c = static_cast<int32_t>(lane()); c < columns; c += kWarpThreads) {
      auto&& element = tile.data[r * tile.row + c * tile.column];
      const W before = element;
      element = before * factor;
    }
  }
}

template <class T>
struct GradInputs {
  Global<const T> q, k, v, dout;
  Global<const WideOf<T>> lse, delta;
};

// A tile of queries against a tile of keys.
template <class T>
struct GradTile {
  using W = WideOf<T>;
  Tile<W> queries, douts, keys, values, weights, scores;  // `scores` are the scores' gradients.
  Shared<W> lse, delta, shift;

  GW_DEVICE GradTile(SharedSpace<W>& space, const AttentionSize& size)
      : queries(space.tile(size.tile, size.head_dim)),
        douts(space.tile(size.tile, size.head_dim)),
        keys(space.tile(size.tile, size.head_dim)),
        values(space.tile(size.tile, size.head_dim)),
        weights(space.tile(size.tile, size.tile)),
        scores(space.tile(size.tile, size.tile)),
        lse(space.take(size.tile)),
        delta(space.take(size.tile)),
        shift(space.take(size.tile)) {}

  GW_DEVICE void load_queries(const GradInputs<T>& in, const AttentionSize& size,
                              const HeadTile& place, int64_t first, int32_t rows) const {
    const auto dim = static_cast<int32_t>(size.head_dim);
    load_tile(queries, in.q + place.offset(size, size.seq_q, size.stride_q, first), size.stride_q,
              rows, dim);
    load_tile(douts, in.dout + place.offset(size, size.seq_q, size.stride_out, first),
              size.stride_out, rows, dim);
    for (int64_t r = thread_index().x; r < rows; r += block_size().x) {
      lse[r] = in.lse[place.row(size, first + r)];
      delta[r] = in.delta[place.row(size, first + r)];
    }
  }
  GW_DEVICE void load_shifts(Global<const W> from, const AttentionSize& size, const HeadTile& place,
                             int64_t first, int32_t rows) const {
    for (int64_t r = thread_index().x; r < rows; r += block_size().x)
      shift[r] = from[place.row(size, first + r)];
  }
  GW_DEVICE void load_keys(const GradInputs<T>& in, const AttentionSize& size,
                           const HeadTile& place, int64_t first, int32_t rows) const {
    const auto dim = static_cast<int32_t>(size.head_dim);
    load_tile(keys, in.k + place.offset(size, size.seq_k, size.stride_k, first), size.stride_k,
              rows, dim);
    load_tile(values, in.v + place.offset(size, size.seq_k, size.stride_v, first), size.stride_v,
              rows, dim);
  }
  // Computes weights and the scores' gradients for queries from `query` on and keys from `key` on.
  GW_DEVICE void differentiate(const AttentionSize& size, int64_t query, int32_t rows, int64_t key,
                               int32_t columns) const {
    const auto dim = static_cast<int32_t>(size.head_dim);
    sync_block();
    multiply_tiles(weights, queries, transposed(keys), {rows, columns, dim}, false);
    multiply_tiles(scores, douts, transposed(values), {rows, columns, dim}, false);
    sync_block();
    const auto scale = static_cast<W>(size.scale);
    const auto c = static_cast<int32_t>(lane());
    for (int32_t r = warp(); r < rows && c < columns; r += warps()) {
      auto&& weight_at = weights.data[r * weights.row + c];
      auto&& score_at = scores.data[r * scores.row + c];
      const W score = weight_at, along = score_at, sum = lse[r], shared = delta[r], more = shift[r];
      const W weight = sees(size, query + r, key + c) ? exp(score * scale - sum - more) : W(0);
      weight_at = weight;
      score_at = weight * (along - shared) * scale;
    }
    sync_block();
  }
  // Sum of a row's weights.
  GW_DEVICE W sum_of_row(int32_t r, int32_t columns) const {
    W sum = 0;
    for (int32_t c = 0; c < columns; ++c) {
      const W weight = weights.data[r * weights.row + c];
      sum += weight;
    }
    return sum;
  }
};

// dq of a tile of queries, and their shifts.
template <class T>
GW_DEVICE void grad_q(const GradInputs<T>& in, Global<T> dq, Global<WideOf<T>> shifts,
                      const AttentionSize& size, Shared<WideOf<T>> shared) {
  using W = WideOf<T>;
  SharedSpace<W> space{shared};
  const GradTile<T> tile(space, size);
  const Tile<W> sums = space.tile(size.tile, size.head_dim);
  const HeadTile place(size, size.seq_q);
  const auto dim = static_cast<int32_t>(size.head_dim);
  tile.load_queries(in, size, place, place.first, place.rows);
  // Row of the tile whose weights this thread sums, if the row's lse lacks digits.
  const auto mine = static_cast<int32_t>(thread_index().x);
  W lse = 0, total = 0;
  if (mine < place.rows) {
    lse = tile.lse[mine];
    tile.shift[mine] = W(0);
  }
  const bool lacks = !size.has_starts && lacks_digits(lse);
  clear_tile(sums, place.rows, dim);
  for (int64_t first = 0; first < size.seq_k; first += size.tile) {
    if (!sees(size, place.first + place.rows - 1, first)) break;
    const int32_t keys = least(size.tile, size.seq_k - first);
    sync_block();
    tile.load_keys(in, size, place, first, keys);
    tile.differentiate(size, place.first, place.rows, first, keys);
    if (lacks) total += tile.sum_of_row(mine, keys);
    multiply_tiles(sums, tile.scores, tile.keys, {place.rows, dim, keys}, true);
  }
  sync_block();
  if (mine < place.rows) {
    const W logarithm = lacks && total > 0 ? log(total) : W(0);
    const W shift = is_of_all(logarithm, lse) ? logarithm : W(0);
    shifts[place.row(size, place.first + mine)] = shift;
    tile.delta[mine] = exp(-shift);
  }
  sync_block();
  scale_rows(sums, tile.delta, place.rows, dim);
  store_tile(dq + place.offset(size, size.seq_q, size.stride_q, place.first), size.stride_q, sums,
             place.rows, dim);
}

// dk and dv of a tile of keys.
template <class T>
GW_DEVICE void grad_kv(const GradInputs<T>& in, Global<const WideOf<T>> shifts, Global<T> dk,
                       Global<T> dv, const AttentionSize& size, Shared<WideOf<T>> shared) {
  using W = WideOf<T>;
  SharedSpace<W> space{shared};
  const GradTile<T> tile(space, size);
  const Tile<W> key_sums = space.tile(size.tile, size.head_dim);
  const Tile<W> value_sums = space.tile(size.tile, size.head_dim);
  const HeadTile place(size, size.seq_k);
  const auto dim = static_cast<int32_t>(size.head_dim);
  tile.load_keys(in, size, place, place.first, place.rows);
  clear_tile(key_sums, place.rows, dim);
  clear_tile(value_sums, place.rows, dim);
  for (int64_t first = 0; first < size.seq_q; first += size.tile) {
    const int32_t queries = least(size.tile, size.seq_q - first);
    if (!sees(size, first + queries - 1, place.first)) continue;
    sync_block();
    tile.load_queries(in, size, place, first, queries);
    tile.load_shifts(shifts, size, place, first, queries);
    tile.differentiate(size, first, queries, place.first, place.rows);
    multiply_tiles(value_sums, transposed(tile.weights), tile.douts, {place.rows, dim, queries},
                   true);
    multiply_tiles(key_sums, transposed(tile.scores), tile.queries, {place.rows, dim, queries},
                   true);
  }
  sync_block();
  store_tile(dk + place.offset(size, size.seq_k, size.stride_k, place.first), size.stride_k,
             key_sums, place.rows, dim);
  store_tile(dv + place.offset(size, size.seq_k, size.stride_v, place.first), size.stride_v,
             value_sums, place.rows, dim);
}

template <class T>
GW_KERNEL_TEMPLATE void attention_grad_q(Global<const T> q, Global<const T> k, Global<const T> v,
                                         Global<const WideOf<T>> lse, Global<const T> dout,
                                         Global<const WideOf<T>> delta, Global<T> dq,
                                         Global<WideOf<T>> shifts, AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  grad_q<T>({q, k, v, dout, lse, delta}, dq, shifts, size, shared);
}

template <class T>
GW_KERNEL_TEMPLATE void attention_grad_kv(Global<const T> q, Global<const T> k, Global<const T> v,
                                          Global<const WideOf<T>> lse, Global<const T> dout,
                                          Global<const WideOf<T>> delta, Global<T> dk, Global<T> dv,
                                          Global<const WideOf<T>> shifts, AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  grad_kv<T>({q, k, v, dout, lse, delta}, shifts, dk, dv, size, shared);
}

template <class T>
GW_KERNEL_TEMPLATE void attention_part_grad_q(Global<const T> q, Global<const T> k,
                                              Global<const T> v, Global<const WideOf<T>> lse,
                                              Global<const T> dout, Global<const WideOf<T>> delta,
                                              Global<const int32_t> q_start,
                                              Global<const int32_t> k_start, Global<T> dq,
                                              Global<WideOf<T>> shifts, AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  grad_q<T>({q, k, v, dout, lse, delta}, dq, shifts, with_starts(size, q_start, k_start), shared);
}

template <class T>
GW_KERNEL_TEMPLATE void attention_part_grad_kv(Global<const T> q, Global<const T> k,
                                               Global<const T> v, Global<const WideOf<T>> lse,
                                               Global<const T> dout, Global<const WideOf<T>> delta,
                                               Global<const int32_t> q_start,
                                               Global<const int32_t> k_start, Global<T> dk,
                                               Global<T> dv, Global<const WideOf<T>> shifts,
                                               AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  grad_kv<T>({q, k, v, dout, lse, delta}, shifts, dk, dv, with_starts(size, q_start, k_start),
             shared);
}

GW_KERNEL_TABLE(attention_grad, GW_INSTANCE("attention_delta_f32", attention_delta<float>),
                GW_INSTANCE("attention_delta_f64", attention_delta<double>),
                GW_INSTANCE("attention_delta_bf16", attention_delta<bf16>),
                GW_INSTANCE("attention_grad_q_f32", attention_grad_q<float>),
                GW_INSTANCE("attention_grad_q_f64", attention_grad_q<double>),
                GW_INSTANCE("attention_grad_q_bf16", attention_grad_q<bf16>),
                GW_INSTANCE("attention_grad_kv_f32", attention_grad_kv<float>),
                GW_INSTANCE("attention_grad_kv_f64", attention_grad_kv<double>),
                GW_INSTANCE("attention_grad_kv_bf16", attention_grad_kv<bf16>),
                GW_INSTANCE("attention_part_grad_q_f32", attention_part_grad_q<float>),
                GW_INSTANCE("attention_part_grad_q_f64", attention_part_grad_q<double>),
                GW_INSTANCE("attention_part_grad_q_bf16", attention_part_grad_q<bf16>),
                GW_INSTANCE("attention_part_grad_kv_f32", attention_part_grad_kv<float>),
                GW_INSTANCE("attention_part_grad_kv_f64", attention_part_grad_kv<double>),
                GW_INSTANCE("attention_part_grad_kv_bf16", attention_part_grad_kv<bf16>));

}  // namespace gangway::cuda
