// Products of experts in full f32 and in f64. grouped_bf16.cu and grouped_tf32.cu have those on the
// matrix unit, in bf16 and in TF32.
#include "executor/devices/cuda/kernels/tiled/grouped_rows.h"
#include "executor/devices/cuda/kernels/tiled/tile.h"

namespace gangway::cuda {

constexpr int32_t kGroupedDepth = 16;  // Depth of the panels in shared memory.

// Element (i, k) of a matrix in memory; one of its two strides is 1.
template <class T>
struct Matrix {
  Global<const T> data;
  int64_t outer, inner;  // From one i, and from one k, to the next.
};

// The 64 x 64 sums of a block. Each thread has 4 x 4 of them.
template <class T>
struct BlockSum {
  Tile<T> left, right;  // [64, 16] and [16, 64]
  int32_t rows[kQuarters], columns[kQuarters];
  T sum[kQuarters][kQuarters] = {};

  GW_DEVICE BlockSum(Shared<T> a, Shared<T> b)
      : left{a, kGroupedDepth + 1, 1}, right{b, kGroupedSide + 1, 1} {
    constexpr int32_t kAcross = kGroupedSide / kQuarters;
    const auto at = static_cast<int32_t>(thread_index().x);
    for (int32_t i = 0; i < kQuarters; ++i) {
      rows[i] = at / kAcross + i * kAcross;
      columns[i] = at % kAcross + i * kAcross;
    }
  }
  // Loads zeros beyond the edges, so that whole tiles are multiplied.
  GW_DEVICE void load(Tile<T> to, const Matrix<T>& from, int32_t outers, int32_t inners) const {
    for (auto n = static_cast<int32_t>(thread_index().x); n < kGroupedSide * kGroupedDepth;
         n += kGroupedThreads) {
      const bool along = from.inner == 1;
      const int32_t i = along ? n / kGroupedDepth : n % kGroupedSide;
      const int32_t k = along ? n % kGroupedDepth : n / kGroupedSide;
      T value = 0;
      if (i < outers && k < inners) value = from.data[i * from.outer + k * from.inner];
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
  GW_DEVICE void store(Global<T> to, int64_t stride, int64_t tall, int64_t wide) const {
    for (int32_t i = 0; i < kQuarters; ++i) {
      for (int32_t j = 0; j < kQuarters; ++j) {
        if (rows[i] < tall && columns[j] < wide) to[rows[i] * stride + columns[j]] = sum[i][j];
      }
    }
  }
};

// y[groups, slots, h] = x[groups, slots, d] w[experts, d, h]; with d and h exchanged, and w
// transposed, the gradient of x.
template <class T>
GW_KERNEL_TEMPLATE void grouped_rows(Global<const T> x, Global<const T> w,
                                     Global<const int32_t> sizes, Global<T> y, GroupedSize size) {
  GW_SHARED(T, left, kGroupedSide * (kGroupedDepth + 1));
  GW_SHARED(T, right, kGroupedDepth * (kGroupedSide + 1));
  const RowTile tile(sizes, size);
  if (tile.tall <= 0) return;
  const int64_t inner = size.transposed ? size.h : size.d;
  const int64_t outer = size.transposed ? size.d : size.h;
  BlockSum<T> block(left, right);
  if (tile.expert < size.experts) {
    const Global<const T> matrix = w + tile.expert * size.d * size.h;
    const Matrix<T> b = size.transposed ? Matrix<T>{matrix + tile.column * size.h, size.h, 1}
                                        : Matrix<T>{matrix + tile.column, 1, size.h};
    block.add({x + tile.row * inner, inner, 1}, b, tile.tall, tile.wide, inner);
  }
  block.store(y + tile.row * outer + tile.column, outer, tile.tall, tile.wide);
}

// dw[experts, d, h] = the sum of x^T dy over the rows of each expert, group by group.
template <class T>
GW_KERNEL_TEMPLATE void grouped_weight(Global<const T> x, Global<const T> dy,
                                       Global<const int32_t> sizes, Global<T> dw,
                                       GroupedSize size) {
  GW_SHARED(T, left, kGroupedSide * (kGroupedDepth + 1));
  GW_SHARED(T, right, kGroupedDepth * (kGroupedSide + 1));
  const WeightTile tile(size);
  BlockSum<T> block(left, right);
  for (int64_t group = 0; group < size.groups; ++group) {
    const Rows rows = rows_of(sizes, size, group, tile.expert);
    const int64_t first = group * size.slots + rows.first;
    block.add({x + first * size.d + tile.row, 1, size.d},
              {dy + first * size.h + tile.column, 1, size.h}, tile.tall, tile.wide, rows.count);
  }
  block.store(dw + (tile.expert * size.d + tile.row) * size.h + tile.column, size.h, tile.tall,
              tile.wide);
}

GW_KERNEL_TABLE(grouped, GW_INSTANCE("grouped_rows_f32_f32", grouped_rows<float>),
                GW_INSTANCE("grouped_rows_f64_f64", grouped_rows<double>),
                GW_INSTANCE("grouped_weight_f32_f32", grouped_weight<float>),
                GW_INSTANCE("grouped_weight_f64_f64", grouped_weight<double>));

}  // namespace gangway::cuda
