// Two bf16 in a word: cards load, round and add both with one instruction.
//
// Sums, differences and products are rounded once, to nearest, ties to even: the same as float
// arithmetic and a rounding, since floats have more than twice the digits. Below the least normal
// number a product may differ from that in its last place. A card's NaN is 0x7fff for any NaN
// operand.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

struct BfPair {
  uint32_t bits;  // The first is the lower half.
};

// Two elements of any other type.
template <class T>
struct Two {
  T at[2];
};

// Element `e`, in the type of computation; `e` is known when this is compiled.
GW_DEVICE float part(BfPair x, int e) {
  return float_of_bits(e == 0 ? x.bits << 16 : x.bits & 0xffff0000u);
}
template <class T>
GW_DEVICE T part(const Two<T>& x, int e) {
  return x.at[e];
}

GW_DEVICE BfPair twice(bf16 x) { return {x.bits * 0x10001u}; }

GW_DEVICE BfPair op_neg(BfPair x) { return {x.bits ^ 0x80008000u}; }
GW_DEVICE BfPair op_abs(BfPair x) { return {x.bits & 0x7fff7fffu}; }

#ifdef __CUDACC__

GW_DEVICE BfPair round_pair(float first, float second) {
  BfPair made;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(made.bits) : "f"(second), "f"(first));
  return made;
}
// x * y + z
GW_DEVICE BfPair multiply_add(BfPair x, BfPair y, BfPair z) {
  BfPair made;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(made.bits) : "r"(x.bits), "r"(y.bits), "r"(z.bits));
  return made;
}
GW_DEVICE BfPair op_add(BfPair x, BfPair y) { return multiply_add(x, {0x3f803f80u}, y); }
GW_DEVICE BfPair op_sub(BfPair x, BfPair y) { return multiply_add(y, {0xbf80bf80u}, x); }
// + -0 leaves the sign of a zero.
GW_DEVICE BfPair op_mul(BfPair x, BfPair y) { return multiply_add(x, y, {0x80008000u}); }

#else

GW_DEVICE BfPair round_pair(float first, float second) {
  return {narrow<bf16>(first).bits | static_cast<uint32_t>(narrow<bf16>(second).bits) << 16};
}
GW_DEVICE BfPair op_add(BfPair x, BfPair y) {
  return round_pair(part(x, 0) + part(y, 0), part(x, 1) + part(y, 1));
}
GW_DEVICE BfPair op_sub(BfPair x, BfPair y) {
  return round_pair(part(x, 0) - part(y, 0), part(x, 1) - part(y, 1));
}
GW_DEVICE BfPair op_mul(BfPair x, BfPair y) {
  return round_pair(part(x, 0) * part(y, 0), part(x, 1) * part(y, 1));
}

#endif

}  // namespace gangway::cuda
