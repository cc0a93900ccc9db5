// Common parts of the kernels of grouped products on the matrix unit, for all types that they
// multiply; sums are in f32.
//
// A block sums 128 x 128 elements, 64 bytes of either side deep at a time: while one pair of panels
// is multiplied the next is loaded from memory, through registers into the other pair. Panels in
// shared memory have the rows of the memory, at a larger distance than their length, so that reads
// of fragments have no bank conflicts.
//
// `Unit` is the type's arithmetic:
//   Element                the type in memory, kInVector of them in 16 bytes
//   set(vector, i, x)      element i of a vector of zeros becomes x
//   rounded(vector)        the vector as the unit multiplies it
//   load_transposed(...)   four fragments of a panel; the sum runs over the panel's rows
//   multiply(sum, ...)     multiply_add() of matrix_unit.h
#pragma once

#include "executor/devices/cuda/kernels/tiled/grouped_rows.h"
#include "executor/devices/cuda/kernels/tiled/matrix_unit.h"
#include "executor/devices/cuda/kernels/tiled/tile.h"

namespace gangway::cuda {

// The unit that a thread moves at once.
struct alignas(16) Vector {
  uint32_t words[4];
};

template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};

GW_DEVICE int32_t thread() { return static_cast<int32_t>(thread_index().x); }

// One side of a product: element (outer, inner), summed over `inner`; kInner: `inner` runs along
// memory.
template <class Unit, bool kInner>
struct Operand {
  using Element = typename Unit::Element;
  static constexpr int32_t kInVector = Unit::kInVector;
  static constexpr int32_t kSide = kMatrixUnitSide, kDepth = 4 * kInVector;
  static constexpr int32_t kVectors = kSide * kDepth / kInVector;
  static constexpr int32_t kInRow = (kInner ? kDepth : kSide) / kInVector;
  // Rows that ldmatrix reads lie 5 or 17 times 16 bytes apart, and so in 8 different banks of 16
  // bytes. Rows of floats whose columns are read word by word lie 17 times 32 bytes apart: the 8
  // columns of 4 rows are 32 different banks of 4 bytes.
  static constexpr int32_t kPitch = kInner ? kDepth + kInVector : kSide + 8;
  static constexpr int32_t kElements = (kInner ? kSide : kDepth) * kPitch;

  Global<const Element> data;
  int64_t stride;  // From one row in memory to the next.
  int32_t outers;  // Rows or columns that exist of this side.
  int64_t inners;  // All that is summed over.

  // A vector of the panel that begins at `inner`, with zeros beyond the edges. kWhole: rows are of
  // whole vectors.
  template <bool kWhole>
  GW_DEVICE Vector fetch(int32_t vector, int64_t inner) const {
    const int64_t along = vector % kInRow * kInVector + (kInner ? inner : 0);
    const int64_t row = vector / kInRow + (kInner ? 0 : inner);
    const int64_t left = (kInner ? inners : outers) - along;
    Vector made = {};
    if (row >= (kInner ? outers : inners) || left <= 0) return made;
    const Global<const Element> at = data + (row * stride + along);
    if constexpr (kWhole) return as_vectors<const Vector>(at)[0];
    GW_UNROLL for (int32_t i = 0; i < kInVector; ++i) {
      if (i >= left) continue;
      const Element element = at[i];
      Unit::set(made, i, element);
    }
    return made;
  }
  GW_DEVICE static void put(Shared<Element> panel, int32_t vector, const Vector& elements) {
    as_vectors<Vector>(panel)[vector / kInRow * (kPitch / kInVector) + vector % kInRow] =
        Unit::rounded(elements);
  }
  // 16 rows of 32 bytes, in the order of fragments that the left side of a product has; the right
  // side takes them as two of 8.
  GW_DEVICE static void load(Fragments& to, Shared<const Element> panel, int32_t outer,
                             int32_t inner, bool left) {
    const int32_t lane = thread() % 32, high = lane / 16, low = lane / 8 % 2;
    if constexpr (kInner) {
      outer += (left ? low : high) * 8 + lane % 8;
      inner += (left ? high : low) * kInVector;
      load_fragments(to, panel + (outer * kPitch + inner));
    } else {
      Unit::template load_transposed<kPitch>(to, panel, outer, inner, left);
    }
  }
};

// left right^T, a block's tile of it.
template <class Unit, class Left, class Right>
struct BlockProduct {
  using Element = typename Unit::Element;
  static constexpr int32_t kDepth = Left::kDepth, kStep = 2 * Unit::kInVector;
  static constexpr int32_t kVectorsOfThread = Left::kVectors / kGroupedThreads;
  static constexpr int32_t kWarpRows = 64, kWarpColumns = 32;  // Size of a warp's sums.
  static constexpr int32_t kRowSteps = kWarpRows / 16, kColumnSteps = kWarpColumns / 8;
  static constexpr int32_t kPair = Left::kElements + Right::kElements;

  Shared<Element> panels;  // Two pairs.
  bool whole;              // All rows are of whole vectors.
  // Vectors on their way into a pair of panels.
  Vector of_left[kVectorsOfThread], of_right[kVectorsOfThread];
  float sum[kRowSteps][kColumnSteps][4] = {};

  GW_DEVICE BlockProduct(Shared<Vector> memory, const GroupedSize& size)
      : panels(as_vectors<Element>(memory)),
        whole(size.d % Unit::kInVector == 0 && size.h % Unit::kInVector == 0) {}

  GW_DEVICE static int32_t warp_row() { return thread() / 32 / 4 * kWarpRows; }
  GW_DEVICE static int32_t warp_column() { return thread() / 32 % 4 * kWarpColumns; }

  template <bool kWhole>
  GW_DEVICE void fetch(const Left& left, const Right& right, int64_t inner) {
    GW_UNROLL for (int32_t i = 0; i < kVectorsOfThread; ++i) {
      of_left[i] = left.template fetch<kWhole>(thread() + i * kGroupedThreads, inner);
      of_right[i] = right.template fetch<kWhole>(thread() + i * kGroupedThreads, inner);
    }
  }
  GW_DEVICE void put(int32_t pair) {
    GW_UNROLL for (int32_t i = 0; i < kVectorsOfThread; ++i) {
      Left::put(panels + pair * kPair, thread() + i * kGroupedThreads, of_left[i]);
      Right::put(panels + (pair * kPair + Left::kElements), thread() + i * kGroupedThreads,
                 of_right[i]);
    }
  }

  GW_DEVICE void add(const Left& left, const Right& right) {
    // One branch for all of them needs fewer registers than one for each.
    const auto fetch_panels = [&](int64_t inner) {
      whole ? fetch<true>(left, right, inner) : fetch<false>(left, right, inner);
    };
    if (left.inners <= 0) return;
    fetch_panels(0);
    sync_block();  // Other threads may still multiply the panels before.
    put(0);
    int32_t pair = 0;
    for (int64_t inner = 0; inner < left.inners; inner += kDepth, pair ^= 1) {
      const bool more = inner + kDepth < left.inners;
      sync_block();
      if (more) fetch_panels(inner + kDepth);
      multiply(panels + pair * kPair);
      if (more) put(pair ^ 1);
    }
  }

  GW_DEVICE void multiply(Shared<const Element> left) {
    const Shared<const Element> right = left + Left::kElements;
    GW_UNROLL for (int32_t inner = 0; inner < kDepth; inner += kStep) {
      Fragments a[kRowSteps], b[kColumnSteps / 2];
      GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i)
          Left::load(a[i], left, warp_row() + 16 * i, inner, true);
      GW_UNROLL for (int32_t j = 0; j < kColumnSteps / 2; ++j)
          Right::load(b[j], right, warp_column() + 16 * j, inner, false);
      GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i) {
        GW_UNROLL for (int32_t j = 0; j < kColumnSteps; ++j)
            Unit::multiply(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  template <class Out>
  GW_DEVICE void store(Global<Out> to, int64_t stride, int32_t tall, int32_t wide) {
    const int32_t g = thread() % 32 / 4, t = thread() % 4;
    GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i) {
      GW_UNROLL for (int32_t j = 0; j < kColumnSteps; ++j) {
        GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
          const int32_t row = warp_row() + 16 * i + 8 * below + g;
          const int32_t column = warp_column() + 8 * j + 2 * t;
          const Pair<Out> made = {narrow<Out>(sum[i][j][2 * below]),
                                  narrow<Out>(sum[i][j][2 * below + 1])};
          if (row >= tall || column >= wide) continue;
          const Global<Out> at = to + (row * stride + column);
          if (whole) {
            as_vectors<Pair<Out>>(at)[0] = made;
          } else {
            at[0] = made.first;
            if (column + 1 < wide) at[1] = made.second;
          }
        }
      }
    }
  }
};

template <class Unit, bool kTransposed, class Out>
GW_DEVICE void make_rows(Shared<Vector> panels, Global<const typename Unit::Element> x,
                         Global<const typename Unit::Element> w, Global<Out> y,
                         const GroupedSize& size, const RowTile& tile) {
  const int64_t inner = kTransposed ? size.h : size.d, outer = kTransposed ? size.d : size.h;
  const int32_t tall = least(kMatrixUnitSide, tile.tall), wide = least(kMatrixUnitSide, tile.wide);
  BlockProduct<Unit, Operand<Unit, true>, Operand<Unit, kTransposed>> block(panels, size);
  if (tile.expert < size.experts) {
    const auto matrix =
        w + (tile.expert * size.d * size.h + tile.column * (kTransposed ? size.h : 1));
    block.add({x + tile.row * inner, inner, tall, inner}, {matrix, size.h, wide, inner});
  }
  block.store(y + (tile.row * outer + tile.column), outer, tall, wide);
}

// See grouped_rows() in grouped.cu.
template <class Unit, class Out>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kGroupedThreads, 2)
    grouped_rows_on_unit(Global<const typename Unit::Element> x,
                         Global<const typename Unit::Element> w, Global<const int32_t> sizes,
                         Global<Out> y, GroupedSize size) {
  using Left = Operand<Unit, true>;
  GW_SHARED(Vector, panels, 4 * Left::kElements / Left::kInVector);
  const RowTile tile(sizes, size);
  if (tile.tall <= 0) return;
  size.transposed ? make_rows<Unit, true>(Shared<Vector>{panels}, x, w, y, size, tile)
                  : make_rows<Unit, false>(Shared<Vector>{panels}, x, w, y, size, tile);
}

// See grouped_weight() in grouped.cu.
template <class Unit, class Out>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kGroupedThreads, 2)
    grouped_weight_on_unit(Global<const typename Unit::Element> x,
                           Global<const typename Unit::Element> dy, Global<const int32_t> sizes,
                           Global<Out> dw, GroupedSize size) {
  using Side = Operand<Unit, false>;
  GW_SHARED(Vector, panels, 4 * Side::kElements / Side::kInVector);
  const WeightTile tile(size);
  const int32_t tall = least(kMatrixUnitSide, tile.tall), wide = least(kMatrixUnitSide, tile.wide);
  BlockProduct<Unit, Side, Side> block(Shared<Vector>{panels}, size);
  for (int64_t group = 0; group < size.groups; ++group) {
    const Rows rows = rows_of(sizes, size, group, tile.expert);
    const int64_t first = group * size.slots + rows.first;
    block.add({x + (first * size.d + tile.row), size.d, tall, rows.count},
              {dy + (first * size.h + tile.column), size.h, wide, rows.count});
  }
  block.store(dw + ((tile.expert * size.d + tile.row) * size.h + tile.column), size.h, tall, wide);
}

}  // namespace gangway::cuda
