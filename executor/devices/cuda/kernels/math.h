// Element-wise arithmetic of kernels, by the rules of executor/kernels/fused.h: one function
// op_<name> for each op, on float, double, int32_t and bool. bf16 is computed in float.
#pragma once

#include "executor/devices/cuda/kernels/bf16_pair.h"

namespace gangway::cuda {

// The value that a bf16 instruction of a chain produces.
GW_DEVICE float rounded(float x) { return widen(narrow<bf16>(x)); }

GW_DEVICE bool widen(bool x) { return x; }
GW_DEVICE double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

#define GW_MATH(name, of_float, of_double)                   \
  GW_DEVICE float op_##name(float x) { return of_float(x); } \
  GW_DEVICE double op_##name(double x) { return of_double(x); }
GW_MATH(exp, expf, exp)
GW_MATH(log, logf, log)
GW_MATH(log1p, log1pf, log1p)
GW_MATH(expm1, expm1f, expm1)
GW_MATH(tanh, tanhf, tanh)
GW_MATH(sqrt, sqrtf, sqrt)
GW_MATH(erf, erff, erf)
GW_MATH(sin, sinf, sin)
GW_MATH(cos, cosf, cos)
GW_MATH(floor, floorf, floor)
GW_MATH(abs, fabsf, fabs)
#undef GW_MATH

template <class T>
GW_DEVICE T op_rsqrt(T x) {
  return T(1) / op_sqrt(x);
}
template <class T>
GW_DEVICE T op_logistic(T x) {
  return T(1) / (T(1) + op_exp(-x));
}
template <class T>
GW_DEVICE T op_neg(T x) {
  return -x;
}
template <class T>
GW_DEVICE T op_sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}
template <class T>
GW_DEVICE bool op_is_finite(T x) {
  return x - x == T(0);
}
template <class T>
GW_DEVICE T op_add(T x, T y) {
  return x + y;
}
template <class T>
GW_DEVICE T op_sub(T x, T y) {
  return x - y;
}
template <class T>
GW_DEVICE T op_mul(T x, T y) {
  return x * y;
}
template <class T>
GW_DEVICE T op_div(T x, T y) {
  return x / y;
}
// NaN wins.
template <class T>
GW_DEVICE T op_max(T x, T y) {
  return x > y || x != x ? x : y;
}
template <class T>
GW_DEVICE T op_min(T x, T y) {
  return x < y || x != x ? x : y;
}
GW_DEVICE float op_pow(float x, float y) { return powf(x, y); }
GW_DEVICE double op_pow(double x, double y) { return pow(x, y); }

// i32 wraps; division by zero gives 0.
GW_DEVICE int32_t op_neg(int32_t x) { return static_cast<int32_t>(0u - static_cast<uint32_t>(x)); }
GW_DEVICE int32_t op_abs(int32_t x) { return x < 0 ? op_neg(x) : x; }
GW_DEVICE int32_t op_floor(int32_t x) { return x; }
GW_DEVICE int32_t op_add(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}
GW_DEVICE int32_t op_sub(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(y));
}
GW_DEVICE int32_t op_mul(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
}
GW_DEVICE int32_t op_div(int32_t x, int32_t y) { return y == 0 ? 0 : y == -1 ? op_neg(x) : x / y; }
GW_DEVICE int32_t op_pow(int32_t base, int32_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  uint32_t result = 1, factor = static_cast<uint32_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if ((exponent & 1) != 0) result *= factor;
  }
  return static_cast<int32_t>(result);
}

GW_DEVICE bool op_not(bool x) { return !x; }
GW_DEVICE bool op_and(bool x, bool y) { return x && y; }
GW_DEVICE bool op_or(bool x, bool y) { return x || y; }

template <class T>
GW_DEVICE bool op_eq(T x, T y) {
  return x == y;
}
template <class T>
GW_DEVICE bool op_ne(T x, T y) {
  return x != y;
}
template <class T>
GW_DEVICE bool op_lt(T x, T y) {
  return x < y;
}
template <class T>
GW_DEVICE bool op_le(T x, T y) {
  return x <= y;
}
template <class T>
GW_DEVICE bool op_gt(T x, T y) {
  return x > y;
}
template <class T>
GW_DEVICE bool op_ge(T x, T y) {
  return x >= y;
}
template <class T>
GW_DEVICE T op_select(bool which, T x, T y) {
  return which ? x : y;
}

// To i32 truncates and saturates, NaN gives 0; to bool is x != 0.
template <class To, class From>
struct Conversion {
  static GW_DEVICE To of(From x) { return static_cast<To>(x); }
};
template <class From>
struct Conversion<bool, From> {
  static GW_DEVICE bool of(From x) { return x != From(0); }
};
GW_DEVICE int32_t saturated(double x) {
  if (!(x > -2147483648.0)) return x != x ? 0 : -2147483647 - 1;
  return x < 2147483647.0 ? static_cast<int32_t>(x) : 2147483647;
}
template <>
struct Conversion<int32_t, float> {
  static GW_DEVICE int32_t of(float x) { return saturated(x); }
};
template <>
struct Conversion<int32_t, double> {
  static GW_DEVICE int32_t of(double x) { return saturated(x); }
};
template <class To, class From>
GW_DEVICE To op_convert(From x) {
  return Conversion<To, From>::of(x);
}

}  // namespace gangway::cuda
