// Vectors of the base path: their width, and the three things that GCC's vector extensions do not
// say.
constexpr int kBytes = 16;
constexpr int kTileRows = 4, kTileVecs = 3;  // For gemm.inl: accumulators fill the register file.

using vf = float __attribute__((vector_size(kBytes)));
using vd = double __attribute__((vector_size(kBytes)));
using vi = int32_t __attribute__((vector_size(kBytes)));
using vu = uint32_t __attribute__((vector_size(kBytes)));
using vl = int64_t __attribute__((vector_size(kBytes)));
using vh = uint16_t __attribute__((vector_size(kBytes / 2)));  // bf16 bits of one vf
using vb = uint8_t __attribute__((vector_size(kBytes / 4)));   // bools of one vf

inline vf sqrt_of(vf x) { return (vf)_mm_sqrt_ps((__m128)x); }
inline vd sqrt_of(vd x) { return (vd)_mm_sqrt_pd((__m128d)x); }
inline vf floor_of(vf x) {
  // SSE2 cannot round: from 2^23 on (and for NaN) a float is its own floor, below it fits an int.
  const vf magnitude = x < 0.0f ? -x : x;
  const vf whole = (vf)_mm_cvtepi32_ps(_mm_cvttps_epi32((__m128)x));
  const vf down = whole - (whole > x ? vf{} + 1.0f : vf{});
  const vf signed_down = (vf)((vi)down | ((vi)x & (INT32_MIN + vi{})));  // floor(-0) is -0
  return magnitude < 8388608.0f ? signed_down : x;
}
inline vu widen(vh x) { return __builtin_convertvector(x, vu); }
inline vh narrow(vu x) { return __builtin_convertvector(x, vh); }

// x between low and high; NaN stays NaN (min and max give their second operand then).
inline vf limit(vf x, float low, float high) {
  return (vf)_mm_max_ps(_mm_set1_ps(low), _mm_min_ps(_mm_set1_ps(high), (__m128)x));
}
// The larger one where no NaN is about.
inline vf plain_max(vf a, vf b) { return (vf)_mm_max_ps((__m128)a, (__m128)b); }
inline vd plain_max(vd a, vd b) { return (vd)_mm_max_pd((__m128d)a, (__m128d)b); }

// The first n lanes; the others are zero, and memory behind them is not touched.
template <class V, class P>
inline V load_part(const P* p, int64_t n) {
  V v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(P));
  return v;
}
template <class V, class P>
inline void store_part(P* p, V v, int64_t n) {
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(P));
}

// exp's scaling: e * 2^n for a whole n in [-151, 129]. Two factors: results reach the subnormals
// and infinity.
inline vf scale_by_power(vf e, vf n) {
  const vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
  return e * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

// No machine of this path has bf16 instructions: never called.
inline vf add_pairs(vf sum, vu, vu) { return sum; }
inline vh to_bf16_native(vf) { return vh{}; }
