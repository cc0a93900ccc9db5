// Products of experts, whose rows are known only when they run: a block of grouped_rows() finds the
// expert of its tile of rows from the sizes, one of grouped_weight() the rows of its expert.
#include "executor/devices/cuda/kernels/tiled/grouped_size.h"
#include "executor/devices/cuda/kernels/tiled/tile.h"

namespace gangway::cuda {

constexpr int32_t kGroupedDepth = 16;  // Of what is summed over, lies in shared memory at a time.

// The rows of one expert in one group, cut to what is there.
struct Rows {
  int64_t first, count;
};
GW_DEVICE Rows rows_after(Global<const int32_t> sizes, int64_t expert, int64_t first,
                          int64_t slots) {
  const int32_t size = sizes[expert];
  const int64_t room = slots - first;
  return {first, size < 0 ? 0 : (size < room ? size : room)};
}

// Element (i, k) of a matrix in memory; one of its two strides is 1.
template <class T>
struct Matrix {
  Global<const T> data;
  int64_t outer, inner;  // From one i, and from one k, to the next.
};

// 64 x 64 sums of a block, each thread's its own.
template <class T>
struct BlockSum {
  using W = WideOf<T>;
  Tile<W> left, right;  // [64, 16] and [16, 64]
  int32_t rows[kQuarters], columns[kQuarters];
  W sum[kQuarters][kQuarters] = {};

  GW_DEVICE BlockSum(Shared<W> a, Shared<W> b)
      : left{a, kGroupedDepth + 1, 1}, right{b, kGroupedSide + 1, 1} {
    constexpr int32_t kAcross = kGroupedSide / kQuarters;
    const auto at = static_cast<int32_t>(thread_index().x);
    for (int32_t i = 0; i < kQuarters; ++i) {
      rows[i] = at / kAcross + i * kAcross;
      columns[i] = at % kAcross + i * kAcross;
    }
  }
  // Zeros beyond the edges, so that whole tiles are multiplied.
  GW_DEVICE void load(Tile<W> to, const Matrix<T>& from, int32_t outers, int32_t inners) const {
    for (auto n = static_cast<int32_t>(thread_index().x); n < kGroupedSide * kGroupedDepth;
         n += kGroupedThreads) {
      const bool along = from.inner == 1;
      const int32_t i = along ? n / kGroupedDepth : n % kGroupedSide;
      const int32_t k = along ? n % kGroupedDepth : n / kGroupedSide;
      W value = 0;
      if (i < outers && k < inners) value = wide_at(from.data, i * from.outer + k * from.inner);
      to.data[i * to.row + k * to.column] = value;
    }
  }
  // Adds the product of a[rows, inner] and the transpose of b[columns, inner].
  GW_DEVICE void add(Matrix<T> a, Matrix<T> b, int64_t tall, int64_t wide, int64_t inner) {
    for (int64_t k = 0; k < inner; k += kGroupedDepth) {
      const int32_t depth = least(kGroupedDepth, inner - k);
      sync_block();
      load(left, {a.data + k * a.inner, a.outer, a.inner}, least(kGroupedSide, tall), depth);
      load(transposed(right), {b.data + k * b.inner, b.outer, b.inner}, least(kGroupedSide, wide),
           depth);
      sync_block();
      multiply_add(sum, left, right, kGroupedDepth, rows, columns);
    }
  }
  template <class Out>
  GW_DEVICE void store(Global<Out> to, int64_t stride, int64_t tall, int64_t wide) const {
    for (int32_t i = 0; i < kQuarters; ++i) {
      for (int32_t j = 0; j < kQuarters; ++j) {
        if (rows[i] < tall && columns[j] < wide)
          to[rows[i] * stride + columns[j]] = narrow<Out>(sum[i][j]);
      }
    }
  }
};

// y[groups, slots, h] = x[groups, slots, d] w[experts, d, h]; with d and h exchanged, and w
// transposed, the gradient of x.
template <class T, class Out>
GW_KERNEL_TEMPLATE void grouped_rows(Global<const T> x, Global<const T> w,
                                     Global<const int32_t> sizes, Global<Out> y, GroupedSize size) {
  GW_SHARED(WideOf<T>, left, kGroupedSide * (kGroupedDepth + 1));
  GW_SHARED(WideOf<T>, right, kGroupedDepth * (kGroupedSide + 1));
  const int64_t inner = size.transposed ? size.h : size.d;
  const int64_t outer = size.transposed ? size.d : size.h;
  const int64_t across = grouped_tiles(outer), tiles = grouped_row_tiles(size.slots, size.experts);
  const int64_t column = block_index().x % across * kGroupedSide;
  const int64_t group = block_index().x / across / tiles;
  int64_t tile = block_index().x / across % tiles, expert = 0;
  Rows rows{0, 0};
  for (; expert < size.experts; ++expert) {
    rows = rows_after(sizes + group * size.experts, expert, rows.first + rows.count, size.slots);
    if (tile < grouped_tiles(rows.count)) break;
    tile -= grouped_tiles(rows.count);
  }
  if (expert == size.experts)
    rows = {rows.first + rows.count, size.slots - rows.first - rows.count};
  if (tile >= grouped_tiles(rows.count)) return;
  const int64_t row = group * size.slots + rows.first + tile * kGroupedSide;
  const int64_t tall = rows.count - tile * kGroupedSide, wide = outer - column;
  BlockSum<T> block(left, right);
  if (expert < size.experts) {
    const Global<const T> matrix = w + expert * size.d * size.h;
    const Matrix<T> b = size.transposed ? Matrix<T>{matrix + column * size.h, size.h, 1}
                                        : Matrix<T>{matrix + column, 1, size.h};
    block.add({x + row * inner, inner, 1}, b, tall, wide, inner);
  }
  block.store(y + row * outer + column, outer, tall, wide);
}

// dw[experts, d, h] = the sum of x^T dy over the rows of each expert, group by group.
template <class T, class Out>
GW_KERNEL_TEMPLATE void grouped_weight(Global<const T> x, Global<const T> dy,
                                       Global<const int32_t> sizes, Global<Out> dw,
                                       GroupedSize size) {
  GW_SHARED(WideOf<T>, left, kGroupedSide * (kGroupedDepth + 1));
  GW_SHARED(WideOf<T>, right, kGroupedDepth * (kGroupedSide + 1));
  const int64_t across = grouped_tiles(size.h), down = grouped_tiles(size.d);
  const int64_t column = block_index().x % across * kGroupedSide;
  const int64_t row = block_index().x / across % down * kGroupedSide;
  const int64_t expert = block_index().x / across / down;
  const int64_t tall = size.d - row, wide = size.h - column;
  BlockSum<T> block(left, right);
  for (int64_t group = 0; group < size.groups; ++group) {
    Rows rows{0, 0};
    for (int64_t e = 0; e <= expert; ++e)
      rows = rows_after(sizes + group * size.experts, e, rows.first + rows.count, size.slots);
    const int64_t first = group * size.slots + rows.first;
    block.add({x + first * size.d + row, 1, size.d}, {dy + first * size.h + column, 1, size.h},
              tall, wide, rows.count);
  }
  block.store(dw + (expert * size.d + row) * size.h + column, size.h, tall, wide);
}

GW_KERNEL_TABLE(grouped, GW_INSTANCE("grouped_rows_f32_f32", grouped_rows<float, float>),
                GW_INSTANCE("grouped_rows_f64_f64", grouped_rows<double, double>),
                GW_INSTANCE("grouped_rows_bf16_bf16", grouped_rows<bf16, bf16>),
                GW_INSTANCE("grouped_rows_bf16_f32", grouped_rows<bf16, float>),
                GW_INSTANCE("grouped_weight_f32_f32", grouped_weight<float, float>),
                GW_INSTANCE("grouped_weight_f64_f64", grouped_weight<double, double>),
                GW_INSTANCE("grouped_weight_bf16_bf16", grouped_weight<bf16, bf16>),
                GW_INSTANCE("grouped_weight_bf16_f32", grouped_weight<bf16, float>));

}  // namespace gangway::cuda
