// One AdamW step over a whole tensor (executor/kernels/adamw.h); the rates are run-time scalars in
// device memory, so that nothing is compiled or captured again when one changes.
#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::cuda {

template <class T, class G>
GW_KERNEL_TEMPLATE void adamw(Global<const T> p, Global<const T> m, Global<const T> v,
                              Global<const G> g, Global<const T> lr, Global<const T> correction1,
                              Global<const T> correction2, Global<const T> grad_scale,
                              Global<T> p_out, Global<T> m_out, Global<T> v_out, double beta1,
                              double beta2, double eps, double weight_decay, int64_t n) {
  const T rate = lr[0], c1 = correction1[0], c2 = correction2[0], scale = grad_scale[0];
  const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2);
  const T rest1 = static_cast<T>(1 - beta1), rest2 = static_cast<T>(1 - beta2);
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const T grad = scale * static_cast<T>(wide_at(g, i));
    const T old = wide_at(p, i);
    const T mean = b1 * wide_at(m, i) + rest1 * grad;
    const T square = b2 * wide_at(v, i) + rest2 * grad * grad;
    const T step = mean / c1 / (sqrt(square / c2) + static_cast<T>(eps));
    p_out[i] = old - rate * (step + static_cast<T>(weight_decay) * old);
    m_out[i] = mean;
    v_out[i] = square;
  }
}

GW_KERNEL_TABLE(optimizer, GW_INSTANCE("adamw_f32_f32", adamw<float, float>),
                GW_INSTANCE("adamw_f32_bf16", adamw<float, bf16>),
                GW_INSTANCE("adamw_f64_f64", adamw<double, double>),
                GW_INSTANCE("adamw_f64_f32", adamw<double, float>),
                GW_INSTANCE("adamw_f64_bf16", adamw<double, bf16>));

}  // namespace gangway::cuda
