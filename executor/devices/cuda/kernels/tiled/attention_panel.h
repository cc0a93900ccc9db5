// Common parts of attention's kernels in bf16 on the matrix unit: panels of a head's rows in shared
// memory, the mask of scores, and the conversion of weights to the left side of the next product.
//
// A block is four warps, each with 16 rows of the block's tile of kMatrixTile; lane 4 g + t of a
// warp has the rows g and g + 8, of every eight columns those at 2 t and 2 t + 1 (matrix_unit.h).
#pragma once

#include "executor/devices/cuda/kernels/bf16_pair.h"
#include "executor/devices/cuda/kernels/tiled/async_copy.h"
#include "executor/devices/cuda/kernels/tiled/attention_tile.h"
#include "executor/devices/cuda/kernels/tiled/matrix_unit.h"

namespace gangway::cuda {

constexpr int32_t kWarpRows = kMatrixTile / (kAttentionThreads / 32);
static_assert(kWarpRows == 16);
constexpr float kLog2E = 1.44269504f;

GW_DEVICE int32_t row_of_lane() { return static_cast<int32_t>(lane() / 4); }
GW_DEVICE int32_t column_of_lane() { return static_cast<int32_t>(lane() % 4 * 2); }
GW_DEVICE int32_t first_row_of_warp() { return warp() * kWarpRows; }

// 2^x to two places of the last bit; less than the least normal number is 0.
GW_DEVICE float power_of_two(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

// Rows of kDim elements, 16 bytes further apart than they are long, so that the eight rows that a
// fragment is read from never meet in a bank.
template <int32_t kDim>
struct Panel {
  static constexpr int32_t kPitch = kDim + kEight;
  GW_DEVICE static constexpr int32_t eights(int32_t rows) { return rows * kPitch / kEight; }

  Shared<bf16> data;

  GW_DEVICE explicit Panel(Shared<Eight> memory) : data(as_vectors<bf16>(memory)) {}

  // Begins to copy `rows` of kRows rows, `dim` elements each; all else becomes zeros.
  template <int32_t kRows>
  GW_DEVICE void fetch(AsyncCopies& copies, Global<const bf16> from, int64_t stride, int32_t rows,
                       int64_t dim) const {
    constexpr int32_t kInRow = kDim / kEight;
    constexpr int32_t kAcross = kInRow % 8 == 0 ? kInRow : 4;  // Threads of a row.
    constexpr int32_t kDown = kAttentionThreads / kAcross;
    static_assert(kRows % kDown == 0 && kInRow % kAcross == 0);
    const auto at = static_cast<int32_t>(thread_index().x);
    const int32_t row = at / kAcross, column = at % kAcross * kEight;
    const Shared<bf16> to = data + (row * kPitch + column);
    const Global<const bf16> first = from + (row * stride + column);
    GW_UNROLL for (int32_t r = 0; r < kRows; r += kDown) {
      GW_UNROLL for (int32_t c = 0; c < kDim; c += kAcross * kEight) {
        const bool there = row + r < rows && column + c < dim;
        copies.add(to + (r * kPitch + c), there ? first + (r * stride + c) : from, there);
      }
    }
  }

  // 16 x 16 elements as the left side of a product.
  GW_DEVICE void load_left(Fragments& to, int32_t row, int32_t column) const {
    load_fragments(to, data + of_lane(row, column));
  }
  // Loads two right sides of 8 rows each, summed over columns.
  GW_DEVICE void load_right(Fragments& to, int32_t row, int32_t column) const {
    const auto at = static_cast<int32_t>(lane());
    load_fragments(to, data + ((row + at / 16 * 8 + at % 8) * kPitch + column + at / 8 % 2 * 8));
  }
  // Loads two right sides of 8 columns each, summed over rows.
  GW_DEVICE void load_right_of_columns(Fragments& to, int32_t row, int32_t column) const {
    load_transposed(to, data + of_lane(row, column));
  }

 private:
  GW_DEVICE static int32_t of_lane(int32_t row, int32_t column) {
    const auto at = static_cast<int32_t>(lane());
    return (row + at % 16) * kPitch + column + at / 16 * 8;
  }
};

template <int32_t kDim>
using PanelRow = Fragments[kDim / 16];  // 16 rows, as left sides.

template <int32_t kDim>
GW_DEVICE void load_rows(PanelRow<kDim>& to, const Panel<kDim>& from) {
  GW_UNROLL for (int32_t k = 0; k < kDim / 16; ++k)
      from.load_left(to[k], first_row_of_warp(), 16 * k);
}

template <int32_t kColumns>
using Scores = float[kColumns / 8][4];

// scores = rows of the warp times rows of the panel.
template <int32_t kDim, int32_t kColumns>
GW_DEVICE void multiply_rows(Scores<kColumns>& scores, const PanelRow<kDim>& rows,
                             const Panel<kDim>& panel) {
  GW_UNROLL for (int32_t k = 0; k < kDim / 16; ++k) {
    GW_UNROLL for (int32_t j = 0; j < kColumns / 16; ++j) {
      Fragments right;
      panel.load_right(right, 16 * j, 16 * k);
      multiply_add(scores[2 * j], rows[k], right[0], right[1]);
      multiply_add(scores[2 * j + 1], rows[k], right[2], right[3]);
    }
  }
}
template <int32_t kDim>
using HeadSums = float[kDim / 8][4];

// sums += weights, rounded to bf16, times the panel, whose rows belong to the weights' columns.
template <int32_t kDim, int32_t kColumns>
GW_DEVICE void add_weighted(HeadSums<kDim>& sums, const Scores<kColumns>& weights,
                            const Panel<kDim>& panel) {
  GW_UNROLL for (int32_t k = 0; k < kColumns / 16; ++k) {
    const float(&low)[4] = weights[2 * k], (&high)[4] = weights[2 * k + 1];
    const Fragments left = {round_pair(low[0], low[1]).bits, round_pair(low[2], low[3]).bits,
                            round_pair(high[0], high[1]).bits, round_pair(high[2], high[3]).bits};
    GW_UNROLL for (int32_t j = 0; j < kDim / 16; ++j) {
      Fragments right;
      panel.load_right_of_columns(right, 16 * k, 16 * j);
      multiply_add(sums[2 * j], left, right[0], right[1]);
      multiply_add(sums[2 * j + 1], left, right[2], right[3]);
    }
  }
}

// Stores the warp's rows of a tile that has `rows` rows: rows 0-7 times by[0], rows 8-15 times
// by[1].
template <int32_t kDim>
GW_DEVICE void store_rows(Global<bf16> to, int64_t stride, const HeadSums<kDim>& sums,
                          const float (&by)[2], int32_t rows, int64_t dim) {
  GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
    const int32_t row = first_row_of_warp() + 8 * below + row_of_lane();
    if (row >= rows) continue;
    const Global<BfPair> at = as_vectors<BfPair>(to + (row * stride + column_of_lane()));
    GW_UNROLL for (int32_t j = 0; j < kDim / 8; ++j) {
      const BfPair made =
          round_pair(sums[j][2 * below] * by[below], sums[j][2 * below + 1] * by[below]);
      if (8 * j < dim) at[4 * j] = made;
    }
  }
}

// Which scores of a warp's rows count, if not all do. `reach`: the warp's row r sees the columns up
// to r + reach, or, if scores are transposed, column c the rows up to c + reach.
struct Mask {
  int32_t columns, reach;
  bool rows_see;

  GW_DEVICE bool sees(int32_t j, int32_t i) const {
    const int32_t row = row_of_lane() + i / 2 * 8, column = 8 * j + column_of_lane() + i % 2;
    return column < columns && (rows_see ? column <= row + reach : row <= column + reach);
  }
};
// Reach from a query to a key, cut to distances that tiles can tell apart.
GW_DEVICE int32_t reach_of(const AttentionSize& size, int64_t query, int64_t key) {
  constexpr int64_t kFar = 2 * kMatrixTile;
  const int64_t reach = size.causal ? query + size.lead - key : kFar;
  return static_cast<int32_t>(reach > kFar ? kFar : reach < -kFar ? -kFar : reach);
}
// The block's tile of queries. With causal masks the last tiles see most keys: they come first, so
// that none of them is left over when all others are done.
GW_DEVICE HeadTile query_tile(const AttentionSize& size) {
  HeadTile place(size, size.seq_q);
  if (size.causal) {
    place.first = (size.seq_q - 1) / kMatrixTile * kMatrixTile - place.first;
    place.rows = least(kMatrixTile, size.seq_q - place.first);
  }
  return place;
}
// Number of keys, from the first on, that some query before `queries_end` sees.
GW_DEVICE int64_t keys_seen(const AttentionSize& size, int64_t queries_end) {
  const int64_t seen = queries_end + size.lead;
  return size.causal && seen < size.seq_k ? seen : size.seq_k;
}

GW_DEVICE AttentionSize from_starts(const AttentionSize& size, Global<const int32_t> q_start,
                                    Global<const int32_t> k_start) {
  return size.has_starts ? with_starts(size, q_start, k_start) : size;
}

}  // namespace gangway::cuda
