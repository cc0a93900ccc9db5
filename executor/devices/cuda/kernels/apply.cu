// One element-wise op at a time, by number: for ops outside generated chains.
#include "executor/devices/cuda/kernels/math.h"
#include "executor/kernels/fused_op.h"

namespace gangway::cuda {

GW_DEVICE constexpr int32_t code(FusedOp op) { return static_cast<int32_t>(op); }

template <class T>
GW_DEVICE T float_op(int32_t op, T x) {
  switch (op) {
    case code(FusedOp::kExp): return op_exp(x);
    case code(FusedOp::kLog): return op_log(x);
    case code(FusedOp::kLog1p): return op_log1p(x);
    case code(FusedOp::kExpm1): return op_expm1(x);
    case code(FusedOp::kTanh): return op_tanh(x);
    case code(FusedOp::kSqrt): return op_sqrt(x);
    case code(FusedOp::kRsqrt): return op_rsqrt(x);
    case code(FusedOp::kErf): return op_erf(x);
    case code(FusedOp::kLogistic): return op_logistic(x);
    case code(FusedOp::kSin): return op_sin(x);
    default: return op_cos(x);
  }
}
GW_DEVICE int32_t float_op(int32_t, int32_t x) { return x; }

template <class T>
GW_DEVICE T number_op(int32_t op, T x, T y) {
  switch (op) {
    case code(FusedOp::kNeg): return op_neg(x);
    case code(FusedOp::kAbs): return op_abs(x);
    case code(FusedOp::kSign): return op_sign(x);
    case code(FusedOp::kFloor): return op_floor(x);
    case code(FusedOp::kAdd): return op_add(x, y);
    case code(FusedOp::kSub): return op_sub(x, y);
    case code(FusedOp::kMul): return op_mul(x, y);
    case code(FusedOp::kDiv): return op_div(x, y);
    case code(FusedOp::kMax): return op_max(x, y);
    case code(FusedOp::kMin): return op_min(x, y);
    case code(FusedOp::kPow): return op_pow(x, y);
    default: return float_op(op, x);
  }
}

template <class T>
GW_DEVICE bool truth(int32_t op, T x, T y) {
  switch (op) {
    case code(FusedOp::kEq): return op_eq(x, y);
    case code(FusedOp::kNe): return op_ne(x, y);
    case code(FusedOp::kLt): return op_lt(x, y);
    case code(FusedOp::kLe): return op_le(x, y);
    case code(FusedOp::kGt): return op_gt(x, y);
    case code(FusedOp::kGe): return op_ge(x, y);
    default: return op_is_finite(x);
  }
}

// An op of one input gets it twice.
template <class T>
GW_DEVICE void apply(int32_t op, Global<const T> a, Global<const T> b, Global<T> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const T x = a[i], y = b[i];
    out[i] = narrow<T>(number_op(op, widen(x), widen(y)));
  }
}

template <class T>
GW_DEVICE void test(int32_t op, Global<const T> a, Global<const T> b, Global<bool> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const T x = a[i], y = b[i];
    out[i] = truth(op, widen(x), widen(y));
  }
}

template <class T>
GW_DEVICE void select(Global<const bool> which, Global<const T> a, Global<const T> b, Global<T> out,
                      int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const bool first = which[i];
    const T x = a[i], y = b[i];
    out[i] = first ? x : y;
  }
}

template <class From, class To>
GW_DEVICE void change(Global<const From> in, Global<To> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const From x = in[i];
    out[i] = narrow<To>(op_convert<WideOf<To>>(widen(x)));
  }
}

GW_KERNEL void logic(int32_t op, Global<const bool> a, Global<const bool> b, Global<bool> out,
                     int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const bool x = a[i], y = b[i];
    out[i] = op == code(FusedOp::kAnd)  ? op_and(x, y)
             : op == code(FusedOp::kOr) ? op_or(x, y)
             : op == code(FusedOp::kNe) ? x != y
             : op == code(FusedOp::kEq) ? x == y
                                        : !x;
  }
}

#define GW_OF_TYPE(name, type)                                                                \
  GW_KERNEL void apply_##name(int32_t op, Global<const type> a, Global<const type> b,         \
                              Global<type> out, int64_t n) {                                  \
    apply(op, a, b, out, n);                                                                  \
  }                                                                                           \
  GW_KERNEL void test_##name(int32_t op, Global<const type> a, Global<const type> b,          \
                             Global<bool> out, int64_t n) {                                   \
    test(op, a, b, out, n);                                                                   \
  }                                                                                           \
  GW_KERNEL void change_##name##_bool(Global<const type> in, Global<bool> out, int64_t n) {   \
    change<type, bool>(in, out, n);                                                           \
  }                                                                                           \
  GW_KERNEL void change_##name##_i32(Global<const type> in, Global<int32_t> out, int64_t n) { \
    change<type, int32_t>(in, out, n);                                                        \
  }                                                                                           \
  GW_KERNEL void change_##name##_bf16(Global<const type> in, Global<bf16> out, int64_t n) {   \
    change<type, bf16>(in, out, n);                                                           \
  }                                                                                           \
  GW_KERNEL void change_##name##_f32(Global<const type> in, Global<float> out, int64_t n) {   \
    change<type, float>(in, out, n);                                                          \
  }                                                                                           \
  GW_KERNEL void change_##name##_f64(Global<const type> in, Global<double> out, int64_t n) {  \
    change<type, double>(in, out, n);                                                         \
  }
GW_OF_TYPE(i32, int32_t)
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

GW_KERNEL void change_bool_i32(Global<const bool> in, Global<int32_t> out, int64_t n) {
  change<bool, int32_t>(in, out, n);
}
GW_KERNEL void change_bool_bf16(Global<const bool> in, Global<bf16> out, int64_t n) {
  change<bool, bf16>(in, out, n);
}
GW_KERNEL void change_bool_f32(Global<const bool> in, Global<float> out, int64_t n) {
  change<bool, float>(in, out, n);
}
GW_KERNEL void change_bool_f64(Global<const bool> in, Global<double> out, int64_t n) {
  change<bool, double>(in, out, n);
}

// select_N: by the size N of an element.
GW_KERNEL void select_1(Global<const bool> which, Global<const uint8_t> a, Global<const uint8_t> b,
                        Global<uint8_t> out, int64_t n) {
  select(which, a, b, out, n);
}
GW_KERNEL void select_2(Global<const bool> which, Global<const uint16_t> a,
                        Global<const uint16_t> b, Global<uint16_t> out, int64_t n) {
  select(which, a, b, out, n);
}
GW_KERNEL void select_4(Global<const bool> which, Global<const uint32_t> a,
                        Global<const uint32_t> b, Global<uint32_t> out, int64_t n) {
  select(which, a, b, out, n);
}
GW_KERNEL void select_8(Global<const bool> which, Global<const uint64_t> a,
                        Global<const uint64_t> b, Global<uint64_t> out, int64_t n) {
  select(which, a, b, out, n);
}

#define GW_ENTRIES(name)                                                         \
  GW_ENTRY(apply_##name), GW_ENTRY(test_##name), GW_ENTRY(change_##name##_bool), \
      GW_ENTRY(change_##name##_i32), GW_ENTRY(change_##name##_bf16),             \
      GW_ENTRY(change_##name##_f32), GW_ENTRY(change_##name##_f64)
GW_KERNEL_TABLE(apply, GW_ENTRIES(i32), GW_ENTRIES(bf16), GW_ENTRIES(f32), GW_ENTRIES(f64),
                GW_ENTRY(change_bool_i32), GW_ENTRY(change_bool_bf16), GW_ENTRY(change_bool_f32),
                GW_ENTRY(change_bool_f64), GW_ENTRY(logic), GW_ENTRY(select_1), GW_ENTRY(select_2),
                GW_ENTRY(select_4), GW_ENTRY(select_8));
#undef GW_ENTRIES

}  // namespace gangway::cuda
