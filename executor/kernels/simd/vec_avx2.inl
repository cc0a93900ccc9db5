// Vectors of the avx2 path: their width, and the three things that GCC's vector extensions do not say.
constexpr int kBytes = 32;
constexpr int kTileRows = 6, kTileVecs = 2;  // Of gemm.inl: accumulators fill the register file.

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
