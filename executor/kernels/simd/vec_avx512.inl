// Vectors of the avx512 path: their width, and the three things that GCC's vector extensions do not
// say.
constexpr int kBytes = 64;
constexpr int kTileRows = 6, kTileVecs = 4;  // For gemm.inl: accumulators fill the register file.

using vf = float __attribute__((vector_size(kBytes)));
using vd = double __attribute__((vector_size(kBytes)));
using vi = int32_t __attribute__((vector_size(kBytes)));
using vu = uint32_t __attribute__((vector_size(kBytes)));
using vl = int64_t __attribute__((vector_size(kBytes)));
using vh = uint16_t __attribute__((vector_size(kBytes / 2)));  // bf16 bits of one vf
using vb = uint8_t __attribute__((vector_size(kBytes / 4)));   // bools of one vf

inline vf sqrt_of(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
inline vd sqrt_of(vd x) { return (vd)_mm512_sqrt_pd((__m512d)x); }
inline vf floor_of(vf x) { return (vf)_mm512_floor_ps((__m512)x); }
inline vu widen(vh x) { return (vu)_mm512_cvtepu16_epi32((__m256i)x); }
inline vh narrow(vu x) { return (vh)_mm512_cvtepi32_epi16((__m512i)x); }

// x between low and high; NaN stays NaN (min and max give their second operand then).
inline vf limit(vf x, float low, float high) {
  return (vf)_mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), (__m512)x));
}
// The larger one where no NaN is about.
inline vf plain_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
inline vd plain_max(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }

// The first n lanes; the others are zero, and memory behind them is not touched.
template <class V, class P>
inline V load_part(const P* p, int64_t n) {
  const uint32_t mask = (uint32_t{1} << n) - 1;
  if constexpr (sizeof(P) == 2) return (V)_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p);
  if constexpr (sizeof(P) == 4) return (V)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), p);
  if constexpr (sizeof(P) == 8) return (V)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask), p);
}
template <class V, class P>
inline void store_part(P* p, V v, int64_t n) {
  const uint32_t mask = (uint32_t{1} << n) - 1;
  if constexpr (sizeof(P) == 2)
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>(mask), (__m256i)v);
  if constexpr (sizeof(P) == 4)
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>(mask), (__m512i)v);
  if constexpr (sizeof(P) == 8)
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(mask), (__m512i)v);
}

// exp's scaling: e * 2^n for a whole n.
inline vf scale_by_power(vf e, vf n) { return (vf)_mm512_scalef_ps((__m512)e, (__m512)n); }

// On a machine that has bf16 instructions. Not the compiler's intrinsics: this path is compiled for
// machines without them too, and asks at run time. sum + the products of both halves of each lane:
inline vf add_pairs(vf sum, vu x, vu y) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  return sum;
}
inline vh to_bf16_native(vf x) {
  vh y;
  asm("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
  return y;
}
