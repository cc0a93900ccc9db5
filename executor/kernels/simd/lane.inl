// Loading and storing vectors of any storage type, whole or the first n elements; bf16 lives in
// memory only.

struct bf16 {
  uint16_t bits;
};

template <class V>
constexpr int kLanesOf = sizeof(V) / sizeof(V{}[0]);
constexpr int kLanes = kLanesOf<vf>;

// The same as align_up(). Each path compiles its own, since a shared one could hold instructions of
// another path.
inline int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class V, class P>
inline V load_raw(const P* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class P>
inline V load_raw(const P* p, int64_t n) {
  return load_part<V>(p, n);
}
template <class V, class P>
inline void store_raw(P* p, V v) {
  __builtin_memcpy(p, &v, sizeof(V));
}
template <class V, class P>
inline void store_raw(P* p, V v, int64_t n) {
  store_part(p, v, n);
}

// Asks for the line `bytes` behind p, wherever that is.
inline void prefetch(const void* p, int64_t bytes) {
  // It may lie beyond the array, where arithmetic on pointers may not go.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) +
                                                   static_cast<uintptr_t>(bytes)));
}

inline vf from_bf16(vh bits) { return (vf)(widen(bits) << 16); }

inline vu rounded_bits(vf x) {
  const vu u = (vu)x;
  const vu rounded = u + 0x7FFFu + ((u >> 16) & 1u);
  return (vu)(x == x ? (vi)rounded : (vi)(u | 0x400000u));  // A NaN stays one.
}
inline vh to_bf16(vf x) { return narrow(rounded_bits(x) >> 16); }
inline vf round_bf16(vf x) { return (vf)(rounded_bits(x) & 0xFFFF0000u); }

// The same by the machine's own instruction where there is one. It takes numbers below the least
// normal one for 0.
template <bool kNative>
inline vf through_bf16(vf x) {
  if constexpr (kNative) return from_bf16(to_bf16_native(x));
  return round_bf16(x);
}

// How a storage type S is held in registers.
template <class S>
struct Lane {
  using V = vf;
  using T = float;
};
template <>
struct Lane<double> {
  using V = vd;
  using T = double;
};
template <class S>
using VecOf = typename Lane<S>::V;
template <class S>
using ScalarOf = typename Lane<S>::T;

inline vf load(const float* p) { return load_raw<vf>(p); }
inline vd load(const double* p) { return load_raw<vd>(p); }
inline vf load(const bf16* p) { return from_bf16(load_raw<vh>(p)); }
inline vf load(const float* p, int64_t n) { return load_raw<vf>(p, n); }
inline vd load(const double* p, int64_t n) { return load_raw<vd>(p, n); }
inline vf load(const bf16* p, int64_t n) { return from_bf16(load_raw<vh>(p, n)); }
inline void store(float* p, vf v) { store_raw(p, v); }
inline void store(double* p, vd v) { store_raw(p, v); }
inline void store(bf16* p, vf v) { store_raw(p, to_bf16(v)); }
inline void store(float* p, vf v, int64_t n) { store_raw(p, v, n); }
inline void store(double* p, vd v, int64_t n) { store_raw(p, v, n); }
inline void store(bf16* p, vf v, int64_t n) { store_raw(p, to_bf16(v), n); }

inline float value(const float* p) { return *p; }
inline double value(const double* p) { return *p; }
inline float value(const bf16* p) {
  const uint32_t bits = static_cast<uint32_t>(p->bits) << 16;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}
inline void put(float* p, float v) { *p = v; }
inline void put(double* p, double v) { *p = v; }
inline void put(bf16* p, float v) { store(p, vf{} + v, 1); }

// body(i, part...) for each vector of n elements; `part` is empty for a whole vector and the count
// for the last piece, so that load(p + i, part...) and store(p + i, v, part...) do the right thing.
template <class V, class Body>
inline void for_vectors(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanesOf<V> <= n; i += kLanesOf<V>) body(i);
  if (i < n) body(i, n - i);
}

// Number of consecutive steps that are summed as one run before the runs are summed. A run has
// about as many steps as there are runs, so that the rounding error of a sum grows as the root of
// its length.
inline int64_t run_length(int64_t steps) {
  int64_t length = 16;
  while (length * length < steps) length *= 2;
  return length;
}

// The sum of term(i, part...) over n elements, by lanes.
template <class V, class Term>
inline V sum_in_runs(int64_t n, const Term& term) {
  const int64_t run = run_length(n / kLanesOf<V>) * kLanesOf<V>;
  V total = {};
  for (int64_t first = 0; first < n; first += run) {
    V part = {};
    for_vectors<V>(n - first < run ? n - first : run,
                   [&](int64_t i, auto... tail) { part += term(first + i, tail...); });
    total += part;
  }
  return total;
}

// Lanes from `n` on become `filler`.
template <class V, class T>
inline V with_tail(V v, T) {
  return v;
}
template <class V, class T>
inline V with_tail(V v, T filler, int64_t n) {
  using Index = decltype(V{} < V{});
  Index lane = {};
  for (int i = 0; i < kLanesOf<V>; ++i) lane[i] = i;  // A constant once unrolled.
  return lane < static_cast<decltype(lane[0] + 0)>(n) ? v : V{} + filler;
}

// NaN wins, from either side.
template <class V>
inline V max_of(V a, V b) {
  return ((a > b) | (a != a)) ? a : b;
}
template <class V>
inline V min_of(V a, V b) {
  return ((a < b) | (a != a)) ? a : b;
}

// Fixed trees over the lanes: halves against each other, down to one.
template <class V, class Join>
inline auto fold_lanes(V v, const Join& join) {
  constexpr int kCount = kLanesOf<V>;
  if constexpr (kCount == 16) {
    return fold_lanes(join(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)),
                      join);
  } else if constexpr (kCount == 8) {
    return fold_lanes(
        join(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)),
        join);
  } else if constexpr (kCount == 4) {
    return fold_lanes(
        join(__builtin_shufflevector(v, v, 0, 1), __builtin_shufflevector(v, v, 2, 3)), join);
  } else {
    return join(v[0] + 0, v[1] + 0);
  }
}
template <class V>
inline auto sum_lanes(V v) {
  return fold_lanes(v, [](auto a, auto b) { return a + b; });
}
// The result is unspecified where a lane is NaN.
template <class V>
inline auto max_lanes(V v) {
  return fold_lanes(v, [](auto a, auto b) { return a > b ? a : b; });
}
