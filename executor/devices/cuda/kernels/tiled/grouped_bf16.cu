// Products of experts in bf16 on the matrix unit, summed in f32.
//
// A block sums 128 x 128 elements, 32 deep at a time: while one pair of panels is multiplied the
// next is on its way from memory, through registers into the other pair. Panels lie in shared
// memory as their rows lie in memory, 16 bytes further apart than they are long, so that the eight
// rows that a fragment is read from never meet in a bank.
#include "executor/devices/cuda/kernels/tiled/async_copy.h"
#include "executor/devices/cuda/kernels/tiled/grouped_rows.h"
#include "executor/devices/cuda/kernels/tiled/matrix_unit.h"

namespace gangway::cuda {

constexpr int32_t kSide = kMatrixUnitSide, kDepth = 32;
constexpr int32_t kEightsOfThread = kSide * kDepth / kEight / kGroupedThreads;
constexpr int32_t kWarpRows = 64, kWarpColumns = 32;  // What a warp sums.
constexpr int32_t kRowSteps = kWarpRows / 16, kColumnSteps = kWarpColumns / 8;

template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};

GW_DEVICE int32_t thread() { return static_cast<int32_t>(thread_index().x); }

// One side of a product: element (outer, inner), summed over `inner`; kInner: that is along memory.
template <bool kInner>
struct Operand {
  static constexpr int32_t kPitch = (kInner ? kDepth : kSide) + kEight;
  static constexpr int32_t kElements = (kInner ? kSide : kDepth) * kPitch;

  Global<const bf16> data;
  int64_t stride;          // From one row in memory to the next.
  int64_t outers, inners;  // What there is.
  bool whole;              // Rows are of whole eights.

  // Eight elements of the panel that begins at `inner`, with zeros beyond the edges.
  GW_DEVICE Eight fetch(int32_t eight, int64_t inner) const {
    constexpr int32_t kInRow = (kInner ? kDepth : kSide) / kEight;
    const int64_t along = eight % kInRow * kEight + (kInner ? inner : 0);
    const int64_t row = eight / kInRow + (kInner ? 0 : inner);
    const int64_t left = (kInner ? inners : outers) - along;
    Eight made = {};
    if (row >= (kInner ? outers : inners) || left <= 0) return made;
    const Global<const bf16> at = data + (row * stride + along);
    if (whole) return as_vectors<const Eight>(at)[0];
    GW_UNROLL for (int32_t i = 0; i < kEight; ++i) {
      if (i >= left) continue;
      const bf16 element = at[i];
      made.words[i / 2] |= static_cast<uint32_t>(element.bits) << 16 * (i % 2);
    }
    return made;
  }
  GW_DEVICE static void put(Shared<bf16> panel, int32_t eight, const Eight& elements) {
    constexpr int32_t kInRow = (kInner ? kDepth : kSide) / kEight;
    as_vectors<Eight>(panel)[eight / kInRow * (kPitch / kEight) + eight % kInRow] = elements;
  }
  // 16 x 16 elements, in the order of fragments that the left side of a product has; the right
  // side takes them as two of 8 x 16.
  GW_DEVICE static void load(Fragments& to, Shared<const bf16> panel, int32_t outer, int32_t inner,
                             bool left) {
    const int32_t lane = thread() % 32, high = lane / 16 * 8, low = lane / 8 % 2 * 8;
    outer += (left ? low : high) + (kInner ? lane % 8 : 0);
    inner += (left ? high : low) + (kInner ? 0 : lane % 8);
    kInner ? load_fragments(to, panel + (outer * kPitch + inner))
           : load_transposed(to, panel + (inner * kPitch + outer));
  }
};

// left right^T, a block's tile of it.
template <class Left, class Right>
struct BlockProduct {
  Shared<bf16> panels;  // Two pairs.
  float sum[kRowSteps][kColumnSteps][4] = {};

  static constexpr int32_t kPair = Left::kElements + Right::kElements;

  GW_DEVICE explicit BlockProduct(Shared<bf16> memory) : panels(memory) {}

  GW_DEVICE static int32_t warp_row() { return thread() / 32 / 4 * kWarpRows; }
  GW_DEVICE static int32_t warp_column() { return thread() / 32 % 4 * kWarpColumns; }

  GW_DEVICE void add(const Left& left, const Right& right) {
    Eight a[kEightsOfThread], b[kEightsOfThread];
    const auto fetch = [&](int64_t inner) {
      GW_UNROLL for (int32_t i = 0; i < kEightsOfThread; ++i) {
        a[i] = left.fetch(thread() + i * kGroupedThreads, inner);
        b[i] = right.fetch(thread() + i * kGroupedThreads, inner);
      }
    };
    const auto put = [&](int32_t pair) {
      GW_UNROLL for (int32_t i = 0; i < kEightsOfThread; ++i) {
        Left::put(panels + pair * kPair, thread() + i * kGroupedThreads, a[i]);
        Right::put(panels + (pair * kPair + Left::kElements), thread() + i * kGroupedThreads, b[i]);
      }
    };
    if (left.inners <= 0) return;
    fetch(0);
    sync_block();  // Who still multiplies what came before.
    put(0);
    int32_t pair = 0;
    for (int64_t inner = 0; inner < left.inners; inner += kDepth, pair ^= 1) {
      const bool more = inner + kDepth < left.inners;
      sync_block();
      if (more) fetch(inner + kDepth);
      multiply(panels + pair * kPair);
      if (more) put(pair ^ 1);
    }
  }

  GW_DEVICE void multiply(Shared<const bf16> left) {
    const Shared<const bf16> right = left + Left::kElements;
    GW_UNROLL for (int32_t inner = 0; inner < kDepth; inner += 16) {
      Fragments a[kRowSteps], b[kColumnSteps / 2];
      GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i)
          Left::load(a[i], left, warp_row() + 16 * i, inner, true);
      GW_UNROLL for (int32_t j = 0; j < kColumnSteps / 2; ++j)
          Right::load(b[j], right, warp_column() + 16 * j, inner, false);
      GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i) {
        GW_UNROLL for (int32_t j = 0; j < kColumnSteps; ++j)
            multiply_add(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  template <class Out>
  GW_DEVICE void store(Global<Out> to, int64_t stride, int64_t tall, int64_t wide, bool whole) {
    const int32_t g = thread() % 32 / 4, t = thread() % 4;
    GW_UNROLL for (int32_t i = 0; i < kRowSteps; ++i) {
      GW_UNROLL for (int32_t j = 0; j < kColumnSteps; ++j) {
        GW_UNROLL for (int32_t below = 0; below < 2; ++below) {
          const int64_t row = warp_row() + 16 * i + 8 * below + g;
          const int64_t column = warp_column() + 8 * j + 2 * t;
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

template <class Out, bool kTransposed>
GW_DEVICE void make_rows(Shared<bf16> panels, Global<const bf16> x, Global<const bf16> w,
                         Global<Out> y, const GroupedSize& size, const RowTile& tile) {
  const bool whole = size.d % kEight == 0 && size.h % kEight == 0;
  const int64_t inner = kTransposed ? size.h : size.d, outer = kTransposed ? size.d : size.h;
  BlockProduct<Operand<true>, Operand<kTransposed>> block(panels);
  if (tile.expert < size.experts) {
    const Global<const bf16> matrix =
        w + (tile.expert * size.d * size.h + tile.column * (kTransposed ? size.h : 1));
    block.add({x + tile.row * inner, inner, tile.tall, inner, whole},
              {matrix, size.h, tile.wide, inner, whole});
  }
  block.store(y + (tile.row * outer + tile.column), outer, tile.tall, tile.wide, whole);
}

// As grouped_rows() in grouped.cu.
template <class Out>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kGroupedThreads, 2)
    grouped_rows(Global<const bf16> x, Global<const bf16> w, Global<const int32_t> sizes,
                 Global<Out> y, GroupedSize size) {
  GW_SHARED(Eight, panels, 4 * Operand<true>::kElements / kEight);
  const RowTile tile(sizes, size);
  if (tile.tall <= 0) return;
  const Shared<bf16> memory = as_vectors<bf16>(Shared<Eight>{panels});
  size.transposed ? make_rows<Out, true>(memory, x, w, y, size, tile)
                  : make_rows<Out, false>(memory, x, w, y, size, tile);
}

// As grouped_weight() in grouped.cu.
template <class Out>
GW_KERNEL_TEMPLATE void GW_BLOCKS(kGroupedThreads, 2)
    grouped_weight(Global<const bf16> x, Global<const bf16> dy, Global<const int32_t> sizes,
                   Global<Out> dw, GroupedSize size) {
  GW_SHARED(Eight, panels, 4 * Operand<false>::kElements / kEight);
  const WeightTile tile(size);
  const bool whole = size.d % kEight == 0 && size.h % kEight == 0;
  BlockProduct<Operand<false>, Operand<false>> block(as_vectors<bf16>(Shared<Eight>{panels}));
  for (int64_t group = 0; group < size.groups; ++group) {
    const Rows rows = rows_of(sizes, size, group, tile.expert);
    const int64_t first = group * size.slots + rows.first;
    block.add({x + (first * size.d + tile.row), size.d, tile.tall, rows.count, whole},
              {dy + (first * size.h + tile.column), size.h, tile.wide, rows.count, whole});
  }
  block.store(dw + ((tile.expert * size.d + tile.row) * size.h + tile.column), size.h, tile.tall,
              tile.wide, whole);
}

GW_KERNEL_TABLE(grouped_bf16, GW_INSTANCE("grouped_rows_bf16_bf16", grouped_rows<bf16>),
                GW_INSTANCE("grouped_rows_bf16_f32", grouped_rows<float>),
                GW_INSTANCE("grouped_weight_bf16_bf16", grouped_weight<bf16>),
                GW_INSTANCE("grouped_weight_bf16_f32", grouped_weight<float>));

}  // namespace gangway::cuda
