// A card's matrix unit (tensor cores): products of 16 x 8 x 16 bf16, or of 16 x 8 x 8 floats in
// TF32, by a warp, summed in f32; from sm_80 on.
//
// A warp holds a matrix in fragments of 8 rows of 16 bytes: lane 4 g + t has word t of row g, which
// is element t in TF32, and in bf16 the elements 2 t and 2 t + 1, one after the other. Sums have
// the elements 2 t and 2 t + 1 in a lane, each in a float of its own. (PTX ISA, mma.m16n8k16,
// mma.m16n8k8 and ldmatrix.)
//
// TF32 is a float with 10 bits of mantissa. The unit ignores the last 13, so the caller rounds
// floats before it multiplies them.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

using Fragments = uint32_t[4];

// Four fragments: row i % 8 of fragment i / 8 is the 16 bytes that lane i points to, aligned. All
// lanes of the warp call it.
GW_DEVICE void load_fragments(Fragments& to, Shared<const bf16> row);
GW_DEVICE void load_fragments(Fragments& to, Shared<const float> row);
// The same for the transposed matrices: `column` points to columns.
GW_DEVICE void load_transposed(Fragments& to, Shared<const bf16> column);

// sum[16, 8] += a[16, 16] b[8, 16]^T. Fragments of a: rows 0-7 and 8-15 of columns 0-7, then of
// columns 8-15; of b: columns 0-7, then 8-15; of sum: a pair for rows 0-7, then for 8-15.
GW_DEVICE void multiply_add(float (&sum)[4], const Fragments& a, uint32_t b_left, uint32_t b_right);

// sum[16, 8] += a[16, 8] b[8, 8]^T in TF32. Fragments of a: rows 0-7 and 8-15 of columns 0-3, then
// of columns 4-7; of b: columns 0-3, then 4-7; of sum as above.
GW_DEVICE void multiply_add_tf32(float (&sum)[4], const Fragments& a, uint32_t b_left,
                                 uint32_t b_right);
// The bits of the nearest number in TF32, ties away from zero; infinity beyond the largest.
GW_DEVICE uint32_t round_to_tf32(float x);

#ifdef __CUDACC__

GW_DEVICE uint32_t shared_address(const bf16* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
GW_DEVICE void load_fragments(Fragments& to, Shared<const bf16> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
GW_DEVICE void load_transposed(Fragments& to, Shared<const bf16> column) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(column))
               : "memory");
}
GW_DEVICE void multiply_add(float (&sum)[4], const Fragments& a, uint32_t b_left,
                            uint32_t b_right) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_left), "r"(b_right));
}
GW_DEVICE void multiply_add_tf32(float (&sum)[4], const Fragments& a, uint32_t b_left,
                                 uint32_t b_right) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_left), "r"(b_right));
}
GW_DEVICE uint32_t round_to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

#else

// The words that all lanes of the warp passed in.
struct WarpWords {
  uint64_t of[kWarpThreads];
  explicit WarpWords(uint64_t mine) { std::memcpy(of, this_block->exchange(mine), sizeof(of)); }
  uint16_t half(uint32_t lane, uint32_t index) const {
    return static_cast<uint16_t>(of[lane] >> 16 * index);
  }
  float tf32(uint32_t lane, uint32_t index) const {
    return float_of_bits(static_cast<uint32_t>(of[lane] >> 32 * index) & ~0x1fffu);
  }
};
struct alignas(16) EightElements {
  uint64_t words[2];
};
// Each lane passes in one row of a fragment.
inline void load_eights(Fragments& to, Shared<const bf16> row, bool transposed) {
  const EightElements mine = as_vectors<const EightElements>(row)[0];
  const WarpWords low(mine.words[0]), high(mine.words[1]);
  const uint32_t g = this_lane() / 4, t = this_lane() % 4;
  const auto element = [&](uint32_t fragment, uint32_t at, uint32_t index) -> uint32_t {
    return (index < 4 ? low : high).half(8 * fragment + at, index % 4);
  };
  for (uint32_t f = 0; f < 4; ++f) {
    to[f] = transposed ? element(f, 2 * t, g) | element(f, 2 * t + 1, g) << 16
                       : element(f, g, 2 * t) | element(f, g, 2 * t + 1) << 16;
  }
}
inline void load_fragments(Fragments& to, Shared<const bf16> row) { load_eights(to, row, false); }
inline void load_transposed(Fragments& to, Shared<const bf16> column) {
  load_eights(to, column, true);
}
inline void multiply_add(float (&sum)[4], const Fragments& a, uint32_t b_left, uint32_t b_right) {
  const WarpWords left(a[0] | uint64_t{a[1]} << 32), right(a[2] | uint64_t{a[3]} << 32);
  const WarpWords b(b_left | uint64_t{b_right} << 32);
  const uint32_t g = this_lane() / 4, t = this_lane() % 4;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t below = i / 2, column = 2 * t + i % 2;
    for (uint32_t k = 0; k < 16; ++k) {
      const uint32_t holder = k % 8 / 2, pair = k % 2;
      const uint16_t x = (k < 8 ? left : right).half(4 * g + holder, 2 * below + pair);
      const uint16_t y = b.half(4 * column + holder, 2 * (k / 8) + pair);
      sum[i] += widen(bf16{x}) * widen(bf16{y});
    }
  }
}
inline void multiply_add_tf32(float (&sum)[4], const Fragments& a, uint32_t b_left,
                              uint32_t b_right) {
  const WarpWords left(a[0] | uint64_t{a[1]} << 32), right(a[2] | uint64_t{a[3]} << 32);
  const WarpWords b(b_left | uint64_t{b_right} << 32);
  const uint32_t g = this_lane() / 4, t = this_lane() % 4;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t below = i / 2, column = 2 * t + i % 2;
    for (uint32_t k = 0; k < 8; ++k) {
      const float x = (k < 4 ? left : right).tf32(4 * g + k % 4, below);
      sum[i] += x * b.tf32(4 * column + k % 4, k / 4);
    }
  }
}
inline uint32_t round_to_tf32(float x) {
  if (x != x) return 0x7fffffff;
  const uint32_t bits = bits_of_float(x);
  return x - x == 0 ? (bits + 0x1000) & ~0x1fffu : bits;
}

#endif

GW_DEVICE void load_fragments(Fragments& to, Shared<const float> row) {
  load_fragments(to, as_vectors<const bf16>(row));
}

}  // namespace gangway::cuda
