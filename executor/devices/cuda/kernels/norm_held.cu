// RMS norm and layer norm of rows that a block holds in registers, a strip for each thread, and
// their gradients; `kCentred` is layer norm. norm.cu has other rows.
//
// A block takes rows one behind another: the next one is loaded while this one is summed, and the
// parameters, the same for all rows, are loaded once. It writes a row after it has read it, so the
// result may be in place of an operand.
#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

// Sums of two values over the block, known to all threads, with one barrier. The places in `sums`
// take turns, so that the next sums need not wait until these are read.
template <class W>
struct TwoSums {
  Shared<W> sums;  // [2, 2, kWarpThreads]
  int32_t turn = 0;

  GW_DEVICE void add_up(W& a, W& b) {
    const auto warp = static_cast<int32_t>(thread_index().x / kWarpThreads);
    const auto warps = static_cast<int32_t>(block_size().x / kWarpThreads);
    constexpr auto kWarps = static_cast<int32_t>(kWarpThreads);
    const int32_t here = turn * 2 * kWarps;
    turn ^= 1;
    a = reduce_warp<Sum>(a);
    b = reduce_warp<Sum>(b);
    if (thread_index().x % kWarpThreads == 0) {
      sums[here + warp] = a;
      sums[here + kWarps + warp] = b;
    }
    sync_block();
    const auto lane = static_cast<int32_t>(thread_index().x % kWarpThreads);
    a = 0;
    b = 0;
    if (lane < warps) {
      a = sums[here + lane];
      b = sums[here + kWarps + lane];
    }
    a = reduce_warp<Sum>(a);
    b = reduce_warp<Sum>(b);
  }
};

// Elements beyond the row's end, which a thread does not have, are zero.
template <class T>
struct HeldRow {
  static constexpr int kCount = 16 / sizeof(T);
  using W = WideOf<T>;
  using Wide = Strip<W, kCount>;
  using AsIs = typename Loaded<T, kCount>::Type;

  int64_t dim;
  int64_t at = static_cast<int64_t>(thread_index().x) * kCount;
  bool mine = at < dim;

  GW_DEVICE AsIs load(Global<const T> x, int64_t row) const {
    if (mine) return load_as_is<kCount>(x + row * dim, at);
    return {};
  }
  template <class P>
  GW_DEVICE Wide parameter(Global<const P> x) const {
    if (mine) return load_strip<kCount>(x, at);
    return {};
  }
  // Subtracts the row's mean.
  GW_DEVICE void centre(Wide& x, TwoSums<W>& over) const {
    W sum = 0, none = 0;
    GW_UNROLL for (int e = 0; e < kCount; ++e) sum += x.at[e];
    over.add_up(sum, none);
    const W mean = sum / static_cast<W>(dim);
    if (!mine) return;
    GW_UNROLL for (int e = 0; e < kCount; ++e) x.at[e] -= mean;
  }
  GW_DEVICE W scale_of(W squares, double eps) const {
    return 1 / sqrt(squares / static_cast<W>(dim) + static_cast<W>(eps));
  }
};

// y = (x - mean) * scale * weight + bias; `piece` rows for each block.
template <bool kCentred, class T, class P>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kHeldThreadsMax, 1)
    norm_held(Global<const T> in, Global<const P> weight, Global<const P> bias, Global<T> out,
              int64_t rows, int64_t dim, int64_t piece, double eps) {
  using Row = HeldRow<T>;
  using W = WideOf<T>;
  GW_SHARED(W, sums, 4 * kWarpThreads);
  TwoSums<W> over{sums};
  const Row held{dim};
  const int64_t begin = block_index().x * piece;
  const int64_t end = begin + piece < rows ? begin + piece : rows;
  const auto by = held.parameter(weight);
  typename Row::Wide add = {};
  if constexpr (kCentred) add = held.parameter(bias);
  auto next = held.load(in, begin);
  for (int64_t row = begin; row < end; ++row) {
    auto x = widen_strip(next);
    if (row + 1 < end) next = held.load(in, row + 1);
    if constexpr (kCentred) held.centre(x, over);
    W squares = 0, none = 0;
    GW_UNROLL for (int e = 0; e < Row::kCount; ++e) squares += x.at[e] * x.at[e];
    over.add_up(squares, none);
    const W scale = held.scale_of(squares, eps);
    GW_UNROLL for (int e = 0; e < Row::kCount; ++e) x.at[e] =
        x.at[e] * scale * by.at[e] + add.at[e];
    if (held.mine) store_strip<Row::kCount>(out + row * dim, held.at, x);
  }
}

// dx, and of each `piece` rows dweight[pieces, dim] and, where it is centred, dbias[pieces, dim],
// which join_sum (reduce.cu) adds up.
template <bool kCentred, class T, class P>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kHeldThreadsMax, 1)
    norm_grad_held(Global<const T> in, Global<const P> weight, Global<const T> grad, Global<T> out,
                   Global<WideOf<T>> dweight, Global<WideOf<T>> dbias, int64_t rows, int64_t dim,
                   int64_t piece, double eps) {
  using Row = HeldRow<T>;
  using W = WideOf<T>;
  GW_SHARED(W, sums, 4 * kWarpThreads);
  TwoSums<W> over{sums};
  const Row held{dim};
  const int64_t begin = block_index().x * piece;
  const int64_t end = begin + piece < rows ? begin + piece : rows;
  const auto by = held.parameter(weight);
  typename Row::Wide weights = {}, biases = {};
  auto next = held.load(in, begin), next_grad = held.load(grad, begin);
  for (int64_t row = begin; row < end; ++row) {
    auto x = widen_strip(next), d = widen_strip(next_grad);
    if (row + 1 < end) {
      next = held.load(in, row + 1);
      next_grad = held.load(grad, row + 1);
    }
    if constexpr (kCentred) held.centre(x, over);
    W squares = 0, along = 0, sum = 0, none = 0;
    GW_UNROLL for (int e = 0; e < Row::kCount; ++e) {
      squares += x.at[e] * x.at[e];
      along += d.at[e] * by.at[e] * x.at[e];
      sum += d.at[e] * by.at[e];
    }
    over.add_up(squares, along);
    if constexpr (kCentred) over.add_up(sum, none);
    const W scale = held.scale_of(squares, eps);
    along *= scale / static_cast<W>(dim);
    sum = kCentred ? sum / static_cast<W>(dim) : 0;
    GW_UNROLL for (int e = 0; e < Row::kCount; ++e) {
      const W normed = x.at[e] * scale;
      weights.at[e] += d.at[e] * normed;
      biases.at[e] += d.at[e];
      x.at[e] = scale * (d.at[e] * by.at[e] - sum - normed * along);
    }
    if (held.mine) store_strip<Row::kCount>(out + row * dim, held.at, x);
  }
  if (!held.mine) return;
  store_strip<Row::kCount>(dweight + block_index().x * dim, held.at, weights);
  if constexpr (kCentred) store_strip<Row::kCount>(dbias + block_index().x * dim, held.at, biases);
}

#define GW_OF_TYPES(of, ...)                                                     \
  GW_INSTANCE("rms_norm_held_" of, norm_held<false, __VA_ARGS__>),               \
      GW_INSTANCE("layer_norm_held_" of, norm_held<true, __VA_ARGS__>),          \
      GW_INSTANCE("rms_norm_grad_held_" of, norm_grad_held<false, __VA_ARGS__>), \
      GW_INSTANCE("layer_norm_grad_held_" of, norm_grad_held<true, __VA_ARGS__>)
GW_KERNEL_TABLE(norm_held, GW_OF_TYPES("f32_f32", float, float),
                GW_OF_TYPES("f64_f64", double, double), GW_OF_TYPES("bf16_bf16", bf16, bf16),
                GW_OF_TYPES("bf16_f32", bf16, float));
#undef GW_OF_TYPES

}  // namespace gangway::cuda
