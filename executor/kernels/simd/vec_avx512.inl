// Vectors of the avx512 path: their width, and the three things that GCC's vector extensions do not say.
constexpr int kBytes = 64;
constexpr int kTileRows = 6, kTileVecs = 4;  // Of gemm.inl: accumulators fill the register file.

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
