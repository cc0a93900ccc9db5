// Vectors of the avx2 path: their width, and the three things that GCC's vector extensions do not
// say.
constexpr int kBytes = 32;
constexpr int kTileRows = 6, kTileVecs = 2;  // For gemm.inl: accumulators fill the register file.

using vf = float __attribute__((vector_size(kBytes)));
using vd = double __attribute__((vector_size(kBytes)));
using vi = int32_t __attribute__((vector_size(kBytes)));
using vu = uint32_t __attribute__((vector_size(kBytes)));
using vl = int64_t __attribute__((vector_size(kBytes)));
using vh = uint16_t __attribute__((vector_size(kBytes / 2)));  // bf16 bits of one vf
using vb = uint8_t __attribute__((vector_size(kBytes / 4)));   // bools of one vf

inline vf sqrt_of(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
inline vd sqrt_of(vd x) { return (vd)_mm256_sqrt_pd((__m256d)x); }
inline vf floor_of(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
inline vu widen(vh x) { return (vu)_mm256_cvtepu16_epi32((__m128i)x); }
inline vh narrow(vu x) {
  // Packing saturates signed values: take the low halves first, then join the two 128-bit lanes.
  const __m256i low = _mm256_and_si256((__m256i)x, _mm256_set1_epi32(0xFFFF));
  return (vh)_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}

// x between low and high; NaN stays NaN (min and max give their second operand then).
inline vf limit(vf x, float low, float high) {
  return (vf)_mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), (__m256)x));
}
// The larger one where no NaN is about.
inline vf plain_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
inline vd plain_max(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }

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
