// RMS norm and layer norm of rows, and their gradients; `centred` is layer norm. Most rows go to
// norm_held.cu; this file is for rows of odd lengths, and very long ones.
//
// The gradient takes four kernels: norm_rows() keeps mean and 1 / deviation of each row;
// norm_grad_param() sums over pieces of rows, and join_sum (reduce.cu) over the pieces, once for
// each parameter; norm_grad() comes last, since its dx may be in place of dy.
#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

template <class W>
struct RowStats {
  W mean, scale;
};

template <class T>
GW_DEVICE RowStats<WideOf<T>> row_stats(Global<const T> x, int64_t dim, double eps, bool centred) {
  using W = WideOf<T>;
  W mean = 0;
  if (centred) {
    each_strip<T>(dim, [&](int64_t first, auto width) {
      const auto strip = load_strip<width.kCount>(x, first);
      GW_UNROLL for (int e = 0; e < width.kCount; ++e) mean += strip.at[e];
    });
    mean = reduce_block<Sum>(mean, W(0)) / static_cast<W>(dim);
  }
  W squares = 0;
  each_strip<T>(dim, [&](int64_t first, auto width) {
    const auto strip = load_strip<width.kCount>(x, first);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) {
      const W d = strip.at[e] - mean;
      squares += d * d;
    }
  });
  squares = reduce_block<Sum>(squares, W(0));
  return {mean, 1 / sqrt(squares / static_cast<W>(dim) + static_cast<W>(eps))};
}

// y = (x - mean) * scale * weight + bias
template <class T, class P>
GW_KERNEL_TEMPLATE void norm(Global<const T> in, Global<const P> weight, Global<const P> bias,
                             Global<T> out, int64_t dim, double eps, bool centred) {
  const int64_t first = static_cast<int64_t>(block_index().x) * dim;
  const Global<const T> x = in + first;
  const Global<T> y = out + first;
  const RowStats<WideOf<T>> row = row_stats<T>(x, dim, eps, centred);
  each_strip<T>(dim, [&](int64_t at, auto width) {
    auto made = load_strip<width.kCount>(x, at);
    const auto by = load_strip<width.kCount>(weight, at);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) made.at[e] =
        (made.at[e] - row.mean) * row.scale * by.at[e];
    if (centred) {
      const auto add = load_strip<width.kCount>(bias, at);
      GW_UNROLL for (int e = 0; e < width.kCount; ++e) made.at[e] += add.at[e];
    }
    store_strip<width.kCount>(y, at, made);
  });
}

// stats[rows, 2]
template <class T>
GW_KERNEL_TEMPLATE void norm_rows(Global<const T> in, Global<WideOf<T>> stats, int64_t dim,
                                  double eps, bool centred) {
  const int64_t row = block_index().x;
  const RowStats<WideOf<T>> found = row_stats<T>(in + row * dim, dim, eps, centred);
  if (thread_index().x != 0) return;
  stats[2 * row] = found.mean;
  stats[2 * row + 1] = found.scale;
}

// dweight[pieces, dim], dbias[pieces, dim] (where centred), of `piece` rows each.
template <class T>
GW_KERNEL_TEMPLATE void norm_grad_param(Global<const T> x, Global<const T> dy,
                                        Global<const WideOf<T>> stats, Global<WideOf<T>> dweight,
                                        Global<WideOf<T>> dbias, int64_t rows, int64_t dim,
                                        int64_t piece, bool centred) {
  using W = WideOf<T>;
  const int64_t n = (rows + piece - 1) / piece * dim;
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t c = i % dim, begin = i / dim * piece;
    const int64_t end = begin + piece < rows ? begin + piece : rows;
    W weights = 0, biases = 0;
    for (int64_t row = begin; row < end; ++row) {
      const W mean = stats[2 * row], scale = stats[2 * row + 1];
      const W d = wide_at(dy, row * dim + c);
      weights += d * (wide_at(x, row * dim + c) - mean) * scale;
      biases += d;
    }
    dweight[i] = weights;
    if (centred) dbias[i] = biases;
  }
}

template <class T, class P>
GW_KERNEL_TEMPLATE void norm_grad(Global<const T> in, Global<const P> weight, Global<const T> grad,
                                  Global<const WideOf<T>> stats, Global<T> out, int64_t dim,
                                  bool centred) {
  using W = WideOf<T>;
  const int64_t row = block_index().x;
  const Global<const T> x = in + row * dim, dy = grad + row * dim;
  const Global<T> dx = out + row * dim;
  const W mean = stats[2 * row], scale = stats[2 * row + 1];
  W sum = 0, along = 0;
  each_strip<T>(dim, [&](int64_t at, auto width) {
    const auto a = load_strip<width.kCount>(x, at), d = load_strip<width.kCount>(dy, at);
    const auto by = load_strip<width.kCount>(weight, at);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) {
      const W g = d.at[e] * by.at[e];
      sum += g;
      along += g * (a.at[e] - mean) * scale;
    }
  });
  sum = centred ? reduce_block<Sum>(sum, W(0)) / static_cast<W>(dim) : 0;
  along = reduce_block<Sum>(along, W(0)) / static_cast<W>(dim);
  each_strip<T>(dim, [&](int64_t at, auto width) {
    auto made = load_strip<width.kCount>(x, at);
    const auto d = load_strip<width.kCount>(dy, at), by = load_strip<width.kCount>(weight, at);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) {
      const W g = d.at[e] * by.at[e];
      made.at[e] = scale * (g - sum - (made.at[e] - mean) * scale * along);
    }
    store_strip<width.kCount>(dx, at, made);
  });
}

GW_KERNEL_TABLE(norm, GW_INSTANCE("norm_f32_f32", norm<float, float>),
                GW_INSTANCE("norm_f64_f64", norm<double, double>),
                GW_INSTANCE("norm_bf16_bf16", norm<bf16, bf16>),
                GW_INSTANCE("norm_bf16_f32", norm<bf16, float>),
                GW_INSTANCE("norm_rows_f32", norm_rows<float>),
                GW_INSTANCE("norm_rows_f64", norm_rows<double>),
                GW_INSTANCE("norm_rows_bf16", norm_rows<bf16>),
                GW_INSTANCE("norm_grad_param_f32", norm_grad_param<float>),
                GW_INSTANCE("norm_grad_param_f64", norm_grad_param<double>),
                GW_INSTANCE("norm_grad_param_bf16", norm_grad_param<bf16>),
                GW_INSTANCE("norm_grad_f32_f32", norm_grad<float, float>),
                GW_INSTANCE("norm_grad_f64_f64", norm_grad<double, double>),
                GW_INSTANCE("norm_grad_bf16_bf16", norm_grad<bf16, bf16>),
                GW_INSTANCE("norm_grad_bf16_f32", norm_grad<bf16, float>));

}  // namespace gangway::cuda
