// Lets the threads of a block go through rows: in strips of 16 bytes if a row is a whole number of
// strips, else element by element. The thread that reads an element follows from the shape alone.
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

// Strips are of T; strips of other types that are loaded with them have as many elements.
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

// A strip as it is loaded, to be widened where it is needed: until then nothing waits for it.
template <class T, int kCount>
struct Loaded {
  using Type = Strip<T, kCount>;
};
template <int kCount>
struct Loaded<bf16, kCount> {
  using Type = Strip<BfPair, kCount / 2>;
};
template <>
struct Loaded<bf16, 1> {
  using Type = Strip<bf16, 1>;
};

template <int kCount, class T>
GW_DEVICE auto load_as_is(Global<const T> x, int64_t first) {
  using Type = typename Loaded<T, kCount>::Type;
  const Type loaded = as_vectors<const Type>(x)[first / kCount];
  return loaded;
}
template <class T, int kCount>
GW_DEVICE Strip<WideOf<T>, kCount> widen_strip(const Strip<T, kCount>& strip) {
  Strip<WideOf<T>, kCount> made;
  GW_UNROLL for (int e = 0; e < kCount; ++e) made.at[e] = widen(strip.at[e]);
  return made;
}
template <int kPairs>
GW_DEVICE Strip<float, 2 * kPairs> widen_strip(const Strip<BfPair, kPairs>& strip) {
  Strip<float, 2 * kPairs> made;
  GW_UNROLL for (int e = 0; e < 2 * kPairs; ++e) made.at[e] = part(strip.at[e / 2], e % 2);
  return made;
}
template <int kCount, class T>
GW_DEVICE Strip<WideOf<T>, kCount> load_strip(Global<const T> x, int64_t first) {
  return widen_strip(load_as_is<kCount>(x, first));
}

template <class T, int kCount>
GW_DEVICE void narrow_strip(Strip<T, kCount>& to, const Strip<WideOf<T>, kCount>& from) {
  GW_UNROLL for (int e = 0; e < kCount; ++e) to.at[e] = narrow<T>(from.at[e]);
}
template <int kPairs>
GW_DEVICE void narrow_strip(Strip<BfPair, kPairs>& to, const Strip<float, 2 * kPairs>& from) {
  GW_UNROLL for (int p = 0; p < kPairs; ++p) to.at[p] =
      round_pair(from.at[2 * p], from.at[2 * p + 1]);
}
template <int kCount, class T>
GW_DEVICE void store_strip(Global<T> y, int64_t first, const Strip<WideOf<T>, kCount>& strip) {
  typename Loaded<T, kCount>::Type made;
  narrow_strip(made, strip);
  as_vectors<typename Loaded<T, kCount>::Type>(y)[first / kCount] = made;
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
