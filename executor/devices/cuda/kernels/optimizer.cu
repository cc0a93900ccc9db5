// One AdamW step over whole tensors (executor/kernels/adamw.h), as many as there are in one launch;
// the rates are run-time scalars in device memory, so that nothing is compiled or captured again
// when one changes.
#include "executor/devices/cuda/kernels/many/many_tensors.h"
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

// T: the type of weights and moments.
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

template <class T, class G>
struct AdamwTensors {
  Global<const T> p, m, v;
  Global<const G> g;
  Global<T> p_out, m_out, v_out;
};
template <int kMax, class T, class G>
struct AdamwMany {
  AdamwTensors<T, G> at[kMax];
};

// A block takes a piece of a tensor, a thread 16 bytes of weights at a time where the tensor is a
// whole number of these.
template <int kMax, class T, class G>
GW_KERNEL_TEMPLATE void adamw(AdamwMany<kMax, T, G> tensors, Global<const T> lr,
                              Global<const T> correction1, Global<const T> correction2,
                              Global<const T> grad_scale, ManyPieces<kMax> pieces,
                              ManyNumbers<kMax> weight_decay, double beta1, double beta2,
                              double eps) {
  const auto piece = static_cast<int32_t>(block_index().x);
  const int32_t tensor = tensor_of(pieces, piece);
  const AdamwTensors<T, G> of = tensors.at[tensor];
  const int64_t n = pieces.elements[tensor];
  const int64_t begin = static_cast<int64_t>(piece - pieces.first[tensor]) * kAdamwPiece;
  const int64_t end = begin + kAdamwPiece < n ? begin + kAdamwPiece : n;
  const AdamwRates<T> rates = {lr[0],
                               correction1[0],
                               correction2[0],
                               grad_scale[0],
                               static_cast<T>(beta1),
                               static_cast<T>(beta2),
                               static_cast<T>(1 - beta1),
                               static_cast<T>(1 - beta2),
                               static_cast<T>(eps),
                               static_cast<T>(weight_decay.at[tensor])};
  const auto take = [&](int64_t at, auto width) {
    constexpr int kCount = width.kCount;
    auto weights = load_strip<kCount>(of.p, at);
    auto means = load_strip<kCount>(of.m, at), squares = load_strip<kCount>(of.v, at);
    const auto gradients = load_strip<kCount>(of.g, at);
    GW_UNROLL for (int e = 0; e < kCount; ++e)
        rates.step(weights.at[e], means.at[e], squares.at[e], static_cast<T>(gradients.at[e]));
    store_strip<kCount>(of.p_out, at, weights);
    store_strip<kCount>(of.m_out, at, means);
    store_strip<kCount>(of.v_out, at, squares);
  };
  constexpr int kStrip = 16 / sizeof(T);
  const int64_t threads = block_size().x, thread = thread_index().x;
  if (n % kStrip == 0) {
    for (int64_t i = begin + thread * kStrip; i < end; i += threads * kStrip)
      take(i, Width<kStrip>());
  } else {
    for (int64_t i = begin + thread; i < end; i += threads) take(i, Width<1>());
  }
}

// Kernels for one tensor, for a few, for many.
static_assert(kFewTensors == 32 && kManyTensors == 400);
#define GW_OF_TYPES(of, ...)                               \
  GW_INSTANCE("adamw_1_" of, adamw<1, __VA_ARGS__>),       \
      GW_INSTANCE("adamw_32_" of, adamw<32, __VA_ARGS__>), \
      GW_INSTANCE("adamw_400_" of, adamw<400, __VA_ARGS__>)
GW_KERNEL_TABLE(optimizer, GW_OF_TYPES("f32_f32", float, float),
                GW_OF_TYPES("f32_bf16", float, bf16), GW_OF_TYPES("f64_f64", double, double),
                GW_OF_TYPES("f64_f32", double, float), GW_OF_TYPES("f64_bf16", double, bf16));
#undef GW_OF_TYPES

}  // namespace gangway::cuda
