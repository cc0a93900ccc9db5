// Attention, a block for each tile of queries: it reads keys and values tile by tile, and scales
// its sums down whenever a larger score comes.
#include "executor/devices/cuda/kernels/tiled/attention_tile.h"

namespace gangway::cuda {

template <class W>
struct QueryTile {
  Tile<W> queries, keys, values, sums, weights;
  Shared<W> largest, total;  // For each query, so far.

  GW_DEVICE QueryTile(SharedSpace<W> space, const AttentionSize& size)
      : queries(space.tile(size.tile, size.head_dim)),
        keys(space.tile(size.tile, size.head_dim)),
        values(space.tile(size.tile, size.head_dim)),
        sums(space.tile(size.tile, size.head_dim)),
        weights(space.tile(size.tile, size.tile)),
        largest(space.take(size.tile)),
        total(space.take(size.tile)) {}
};

// Turns the scores of keys from `first` on into weights. A warp for each query, a lane for each
// key.
template <class W>
GW_DEVICE void weigh(const QueryTile<W>& tile, const AttentionSize& size, const HeadTile& place,
                     int64_t first, int32_t keys) {
  const auto key = static_cast<int32_t>(lane());
  for (int32_t r = warp(); r < place.rows; r += warps()) {
    auto&& weight_at = tile.weights.data[r * tile.weights.row + key];
    const bool seen = key < keys && sees(size, place.first + r, first + key);
    W score = -infinity<W>();
    if (seen) score = weight_at * static_cast<W>(size.scale);
    const W before = tile.largest[r], total = tile.total[r];
    const W now = Largest()(before, reduce_warp<Largest>(score));
    const W weight = seen ? exp(score - now) : W(0);
    const W by = before == now ? W(1) : exp(before - now);  // Equal where both are -infinity.
    const W more = reduce_warp<Sum>(weight);
    if (key < keys) weight_at = weight;
    for (int32_t c = key; c < size.head_dim; c += kWarpThreads) {
      auto&& sum = tile.sums.data[r * tile.sums.row + c];
      sum = sum * by;
    }
    sync_warp();
    if (key > 0) continue;
    tile.largest[r] = now;
    tile.total[r] = total * by + more;
  }
}

template <class T>
GW_DEVICE void attend(Global<const T> q, Global<const T> k, Global<const T> v, Global<T> out,
                      Global<WideOf<T>> lse, const AttentionSize& size, Shared<WideOf<T>> shared) {
  using W = WideOf<T>;
  const QueryTile<W> tile({shared}, size);
  const HeadTile place(size, size.seq_q);
  const int32_t dim = static_cast<int32_t>(size.head_dim), rows = place.rows;
  load_tile(tile.queries, q + place.offset(size, size.seq_q, size.stride_q, place.first),
            size.stride_q, rows, dim);
  clear_tile(tile.sums, rows, dim);
  for (int64_t r = thread_index().x; r < rows; r += block_size().x) {
    tile.largest[r] = -infinity<W>();
    tile.total[r] = W(0);
  }
  for (int64_t first = 0; first < size.seq_k; first += size.tile) {
    if (!sees(size, place.first + rows - 1, first)) break;
    const int32_t keys = least(size.tile, size.seq_k - first);
    sync_block();
    load_tile(tile.keys, k + place.offset(size, size.seq_k, size.stride_k, first), size.stride_k,
              keys, dim);
    load_tile(tile.values, v + place.offset(size, size.seq_k, size.stride_v, first), size.stride_v,
              keys, dim);
    sync_block();
    multiply_tiles(tile.weights, tile.queries, transposed(tile.keys), {rows, keys, dim}, false);
    sync_block();
    weigh(tile, size, place, first, keys);
    sync_block();
    multiply_tiles(tile.sums, tile.weights, tile.values, {rows, dim, keys}, true);
  }
  sync_block();
  for (int32_t r = warp(); r < rows; r += warps()) {
    const W largest = tile.largest[r], total = tile.total[r];
    const W by = total == W(0) ? W(0) : 1 / total;  // A query that saw no key gives zeros.
    const int64_t row = place.offset(size, size.seq_q, size.stride_out, place.first + r);
    for (auto c = static_cast<int32_t>(lane()); c < dim; c += kWarpThreads) {
      const W sum = tile.sums.data[r * tile.sums.row + c];
      out[row + c] = narrow<T>(sum * by);
    }
    if (lane() == 0) lse[place.row(size, place.first + r)] = largest + log(total);
  }
}

template <class T>
GW_KERNEL_TEMPLATE void attention(Global<const T> q, Global<const T> k, Global<const T> v,
                                  Global<T> out, Global<WideOf<T>> lse, AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  attend<T>(q, k, v, out, lse, size, shared);
}

template <class T>
GW_KERNEL_TEMPLATE void attention_part(Global<const T> q, Global<const T> k, Global<const T> v,
                                       Global<T> out, Global<WideOf<T>> lse,
                                       Global<const int32_t> q_start, Global<const int32_t> k_start,
                                       AttentionSize size) {
  GW_DYNAMIC_SHARED(WideOf<T>, shared);
  attend<T>(q, k, v, out, lse, with_starts(size, q_start, k_start), shared);
}

GW_KERNEL_TABLE(attention, GW_INSTANCE("attention_f32", attention<float>),
                GW_INSTANCE("attention_f64", attention<double>),
                GW_INSTANCE("attention_bf16", attention<bf16>),
                GW_INSTANCE("attention_part_f32", attention_part<float>),
                GW_INSTANCE("attention_part_f64", attention_part<double>),
                GW_INSTANCE("attention_part_bf16", attention_part<bf16>));

}  // namespace gangway::cuda
