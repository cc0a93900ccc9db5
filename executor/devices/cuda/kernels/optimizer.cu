// One AdamW step over a whole tensor (executor/kernels/adamw.h); the rates are run-time scalars in
// device memory, so that nothing is compiled or captured again when one changes.
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

// Of T, the type of weights and moments.
template <class T>
struct AdamwRates {
  T rate, correction1, correction2, scale;
  T beta1, beta2, rest1, rest2, eps, weight_decay;

  GW_DEVICE void step(T& p, T& m, T& v, T gradient) const {
    const T grad = scale * gradient;
    m = beta1 * m + rest1 * grad;
    v = beta2 * v + rest2 * grad * grad;
    p = p - rate * (m / correction1 / (sqrt(v / correction2) + eps) + weight_decay * p);
  }
};

// A thread takes 16 bytes of weights at a time where they are a whole number of these.
template <class T, class G>
GW_KERNEL_TEMPLATE void adamw(Global<const T> p, Global<const T> m, Global<const T> v,
                              Global<const G> g, Global<const T> lr, Global<const T> correction1,
                              Global<const T> correction2, Global<const T> grad_scale,
                              Global<T> p_out, Global<T> m_out, Global<T> v_out, double beta1,
                              double beta2, double eps, double weight_decay, int64_t n) {
  const AdamwRates<T> rates = {lr[0],
                               correction1[0],
                               correction2[0],
                               grad_scale[0],
                               static_cast<T>(beta1),
                               static_cast<T>(beta2),
                               static_cast<T>(1 - beta1),
                               static_cast<T>(1 - beta2),
                               static_cast<T>(eps),
                               static_cast<T>(weight_decay)};
  const auto take = [&](int64_t at, auto width) {
    constexpr int kCount = width.kCount;
    auto weights = load_strip<kCount>(p, at);
    auto means = load_strip<kCount>(m, at), squares = load_strip<kCount>(v, at);
    const auto gradients = load_strip<kCount>(g, at);
    GW_UNROLL for (int e = 0; e < kCount; ++e)
        rates.step(weights.at[e], means.at[e], squares.at[e], static_cast<T>(gradients.at[e]));
    store_strip<kCount>(p_out, at, weights);
    store_strip<kCount>(m_out, at, means);
    store_strip<kCount>(v_out, at, squares);
  };
  constexpr int kStrip = 16 / sizeof(T);
  if (n % kStrip == 0) {
    for (int64_t i = global_thread(); i < n / kStrip; i += global_threads())
      take(i * kStrip, Width<kStrip>());
  } else {
    for (int64_t i = global_thread(); i < n; i += global_threads()) take(i, Width<1>());
  }
}

GW_KERNEL_TABLE(optimizer, GW_INSTANCE("adamw_f32_f32", adamw<float, float>),
                GW_INSTANCE("adamw_f32_bf16", adamw<float, bf16>),
                GW_INSTANCE("adamw_f64_f64", adamw<double, double>),
                GW_INSTANCE("adamw_f64_f32", adamw<double, float>),
                GW_INSTANCE("adamw_f64_bf16", adamw<double, bf16>));

}  // namespace gangway::cuda
