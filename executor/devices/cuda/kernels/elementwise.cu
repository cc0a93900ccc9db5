// Element-wise kernels that no chain is generated for: fill, convert, add.
#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

template <class T>
GW_DEVICE void fill(Global<T> out, T value, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) out[i] = value;
}

template <class To, class From>
GW_DEVICE void convert(Global<const From> in, Global<To> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const From x = in[i];
    out[i] = narrow<To>(widen(x));
  }
}

template <class T>
GW_DEVICE void add(Global<const T> a, Global<const T> b, Global<T> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const T x = a[i], y = b[i];
    out[i] = narrow<T>(widen(x) + widen(y));
  }
}

GW_KERNEL void fill_f32(Global<float> out, float value, int64_t n) { fill(out, value, n); }
GW_KERNEL void fill_f64(Global<double> out, double value, int64_t n) { fill(out, value, n); }
GW_KERNEL void fill_i32(Global<int32_t> out, int32_t value, int64_t n) { fill(out, value, n); }
GW_KERNEL void fill_bf16(Global<bf16> out, bf16 value, int64_t n) { fill(out, value, n); }

GW_KERNEL void convert_f32_bf16(Global<const float> in, Global<bf16> out, int64_t n) {
  convert<bf16>(in, out, n);
}
GW_KERNEL void convert_bf16_f32(Global<const bf16> in, Global<float> out, int64_t n) {
  convert<float>(in, out, n);
}

GW_KERNEL void add_f32(Global<const float> a, Global<const float> b, Global<float> out, int64_t n) {
  add(a, b, out, n);
}
GW_KERNEL void add_f64(Global<const double> a, Global<const double> b, Global<double> out,
                       int64_t n) {
  add(a, b, out, n);
}
GW_KERNEL void add_bf16(Global<const bf16> a, Global<const bf16> b, Global<bf16> out, int64_t n) {
  add(a, b, out, n);
}

GW_KERNEL_TABLE(elementwise, GW_ENTRY(fill_f32), GW_ENTRY(fill_f64), GW_ENTRY(fill_i32),
                GW_ENTRY(fill_bf16), GW_ENTRY(convert_f32_bf16), GW_ENTRY(convert_bf16_f32),
                GW_ENTRY(add_f32), GW_ENTRY(add_f64), GW_ENTRY(add_bf16));

}  // namespace gangway::cuda
