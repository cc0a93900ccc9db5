// How the threads of a block go through rows: in strips of 16 bytes where a row is a whole number
// of strips, else element by element. Which thread reads which element follows from the shape
// alone.
//
// Example:
//   each_strip<T>(columns, [&](int64_t first, auto width) {
//     const auto a = load_strip<width.kCount>(x, first);
//     GW_UNROLL for (int e = 0; e < width.kCount; ++e) sum += a.at[e];
//   });
#pragma once

#include "executor/devices/cuda/kernels/bf16_pair.h"

namespace gangway::cuda {

template <int kElements>
struct Width {
  static constexpr int kCount = kElements;
};

// Strips are of T; what else is loaded beside them has as many elements.
template <class T, class Body>
GW_DEVICE void each_strip(int64_t columns, const Body& body) {
  constexpr int kCount = 16 / sizeof(T);
  const int64_t step = block_size().x;
  if (columns % kCount == 0) {
    for (int64_t s = thread_index().x; s < columns / kCount; s += step)
      body(s * kCount, Width<kCount>());
  } else {
    for (int64_t c = thread_index().x; c < columns; c += step) body(c, Width<1>());
  }
}

template <class T>
struct IsBf16 {
  static constexpr bool kYes = false;
};
template <>
struct IsBf16<bf16> {
  static constexpr bool kYes = true;
};

template <int kCount, class T>
GW_DEVICE Strip<WideOf<T>, kCount> load_strip(Global<const T> x, int64_t first) {
  Strip<WideOf<T>, kCount> made;
  if constexpr (IsBf16<T>::kYes && kCount > 1) {
    using Pairs = Strip<BfPair, kCount / 2>;
    const Pairs pairs = as_vectors<const Pairs>(x)[first / kCount];
    GW_UNROLL for (int e = 0; e < kCount; ++e) made.at[e] = part(pairs.at[e / 2], e % 2);
  } else {
    const Strip<T, kCount> strip = as_vectors<const Strip<T, kCount>>(x)[first / kCount];
    GW_UNROLL for (int e = 0; e < kCount; ++e) made.at[e] = widen(strip.at[e]);
  }
  return made;
}
template <int kCount, class T>
GW_DEVICE void store_strip(Global<T> y, int64_t first, const Strip<WideOf<T>, kCount>& strip) {
  if constexpr (IsBf16<T>::kYes && kCount > 1) {
    Strip<BfPair, kCount / 2> made;
    GW_UNROLL for (int p = 0; p < kCount / 2; ++p) made.at[p] =
        round_pair(strip.at[2 * p], strip.at[2 * p + 1]);
    as_vectors<Strip<BfPair, kCount / 2>>(y)[first / kCount] = made;
  } else {
    Strip<T, kCount> made;
    GW_UNROLL for (int e = 0; e < kCount; ++e) made.at[e] = narrow<T>(strip.at[e]);
    as_vectors<Strip<T, kCount>>(y)[first / kCount] = made;
  }
}

// y[c] = body(c, x[c]); y may lie on x.
template <class T, class Body>
GW_DEVICE void map_row(Global<const T> x, Global<T> y, int64_t columns, const Body& body) {
  each_strip<T>(columns, [&](int64_t first, auto width) {
    auto strip = load_strip<width.kCount>(x, first);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) strip.at[e] = body(first + e, strip.at[e]);
    store_strip<width.kCount>(y, first, strip);
  });
}

}  // namespace gangway::cuda
