// Reads of tensors whose layout is not that of a chain's elements.
//
// (MLX reads strided operands in its element-wise kernels likewise: elem_to_loc.)
#pragma once

#include "executor/devices/cuda/kernels/bf16_pair.h"
#include "executor/devices/cuda/kernels/chain/row_view.h"

namespace gangway::cuda {

// x / d, by what divisor_of(d) says.
GW_DEVICE uint32_t divide(uint32_t x, uint32_t multiplier, uint32_t shift) {
  const uint64_t product = static_cast<uint64_t>(x) * multiplier;
  return (static_cast<uint32_t>(product >> 32) + x) >> shift;
}

// The element at which strip `i` begins, counted row-major over the view's sizes. kSmall: there are
// fewer than kDividedMax, and no index takes a division of 64 bits, for which a card has no
// instruction.
template <bool kSmall, int kRank>
GW_DEVICE int64_t place_of(const RowView<kRank>& view, int64_t i) {
  int64_t place = 0;
  GW_UNROLL for (int d = kRank - 1; d > 0; --d) {
    int64_t above = 0;
    if constexpr (kSmall) {
      above = divide(static_cast<uint32_t>(i), view.multipliers[d], view.shifts[d]);
    } else {
      above = i / view.sizes[d];
    }
    place += (i - above * view.sizes[d]) * view.strides[d];
    i = above;
  }
  return place + i * view.strides[0];
}

// A strip of elements that lie `step` elements apart.
template <class T>
struct Gathered {
  Global<const T> from;
  int64_t step;

  template <int kCount>
  GW_DEVICE void into(Strip<T, kCount>& strip) const {
    GW_UNROLL for (int e = 0; e < kCount; ++e) {
      const T element = from[e * step];
      strip.at[e] = element;
    }
  }
  template <int kPairs>
  GW_DEVICE void into(Strip<BfPair, kPairs>& strip) const {
    GW_UNROLL for (int p = 0; p < kPairs; ++p) {
      const bf16 first = from[2 * p * step], second = from[(2 * p + 1) * step];
      strip.at[p] = {first.bits | static_cast<uint32_t>(second.bits) << 16};
    }
  }
};

}  // namespace gangway::cuda
