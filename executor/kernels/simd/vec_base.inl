// Vectors of the base path: their width, and the three things that GCC's vector extensions do not say.
constexpr int kBytes = 16;
constexpr int kTileRows = 4, kTileVecs = 3;  // Of gemm.inl: accumulators fill the register file.

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
