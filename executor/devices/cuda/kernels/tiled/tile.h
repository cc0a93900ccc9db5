// Tiles in shared memory, and their products: a thread sums 4 x 4 elements at a time, so that 8
// reads serve 16 products.
//
// A thread's rows are a quarter of the tile apart, and so are its columns: neighbouring threads
// then read neighbouring words. If rows are an odd number of words apart, the columns of a tile are
// read without conflicts too. Sums run over `inner` in order, by one thread: bits do not depend on
// the launch.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

constexpr int32_t kQuarters = 4;

// Element (r, c) lies at r * row + c * column.
template <class W>
struct Tile {
  Shared<W> data;
  int32_t row, column;
};
template <class W>
GW_DEVICE Tile<W> transposed(Tile<W> tile) {
  return {tile.data, tile.column, tile.row};
}

GW_DEVICE uint32_t lane() { return thread_index().x % kWarpThreads; }
GW_DEVICE int32_t warp() { return static_cast<int32_t>(thread_index().x / kWarpThreads); }
GW_DEVICE int32_t warps() { return static_cast<int32_t>(block_size().x / kWarpThreads); }
GW_DEVICE int32_t least(int64_t a, int64_t b) { return static_cast<int32_t>(a < b ? a : b); }

// sum[i][j] += a[rows[i], k] * b[k, columns[j]] over all k.
template <class W>
GW_DEVICE void multiply_add(W (&sum)[kQuarters][kQuarters], Tile<W> a, Tile<W> b, int32_t inner,
                            const int32_t (&rows)[kQuarters], const int32_t (&columns)[kQuarters]) {
  for (int32_t k = 0; k < inner; ++k) {
    W x[kQuarters], y[kQuarters];
    for (int32_t i = 0; i < kQuarters; ++i) x[i] = a.data[rows[i] * a.row + k * a.column];
    for (int32_t j = 0; j < kQuarters; ++j) y[j] = b.data[k * b.row + columns[j] * b.column];
    for (int32_t i = 0; i < kQuarters; ++i) {
      for (int32_t j = 0; j < kQuarters; ++j) sum[i][j] += x[i] * y[j];
    }
  }
}

struct TileSize {
  int32_t rows, columns, inner;
};

// c = a b, or c += a b where it accumulates. The caller puts a barrier before and after.
template <class W>
GW_DEVICE void multiply_tiles(Tile<W> c, Tile<W> a, Tile<W> b, TileSize size, bool accumulate) {
  const int32_t down = (size.rows + kQuarters - 1) / kQuarters;
  const int32_t across = (size.columns + kQuarters - 1) / kQuarters;
  const auto threads = static_cast<int32_t>(block_size().x);
  for (auto at = static_cast<int32_t>(thread_index().x); at < down * across; at += threads) {
    int32_t rows[kQuarters], columns[kQuarters];
    W sum[kQuarters][kQuarters] = {};
    const auto for_each_inside = [&](const auto& body) {
      for (int32_t i = 0; i < kQuarters; ++i) {
        for (int32_t j = 0; j < kQuarters; ++j) {
          const int32_t row = at / across + i * down, column = at % across + j * across;
          if (row < size.rows && column < size.columns)
            body(sum[i][j], c.data[row * c.row + column * c.column]);
        }
      }
    };
    // Beyond the edge the last row, or column, is multiplied again, and not kept.
    for (int32_t i = 0; i < kQuarters; ++i) {
      rows[i] = least(at / across + i * down, size.rows - 1);
      columns[i] = least(at % across + i * across, size.columns - 1);
    }
    if (accumulate) for_each_inside([](W& part, auto&& kept) { part = kept; });
    multiply_add(sum, a, b, size.inner, rows, columns);
    for_each_inside([](W part, auto&& kept) { kept = part; });
  }
}

// Rows of memory, `stride` elements from one to the next.
template <class T, class W>
GW_DEVICE void load_tile(Tile<W> to, Global<const T> from, int64_t stride, int32_t rows,
                         int32_t columns) {
  for (int32_t r = warp(); r < rows; r += warps()) {
    for (auto c = static_cast<int32_t>(lane()); c < columns; c += kWarpThreads)
      to.data[r * to.row + c * to.column] = wide_at(from, r * stride + c);
  }
}
template <class T, class W>
GW_DEVICE void store_tile(Global<T> to, int64_t stride, Tile<W> from, int32_t rows,
                          int32_t columns) {
  for (int32_t r = warp(); r < rows; r += warps()) {
    for (auto c = static_cast<int32_t>(lane()); c < columns; c += kWarpThreads) {
      const W value = from.data[r * from.row + c * from.column];
      to[r * stride + c] = narrow<T>(value);
    }
  }
}
template <class W>
GW_DEVICE void clear_tile(Tile<W> tile, int32_t rows, int32_t columns) {
  for (int32_t r = warp(); r < rows; r += warps()) {
    for (auto c = static_cast<int32_t>(lane()); c < columns; c += kWarpThreads)
      tile.data[r * tile.row + c * tile.column] = W(0);
  }
}

}  // namespace gangway::cuda
