// AdamW over elements [begin, end), and the weighted sums of rows of gather, scatter and expert
// combine.

template <class G, class T>
inline void adamw_typed(const AdamwRates& a, const AdamwTensors& t, int64_t begin, int64_t end) {
  using V = VecOf<T>;
  const T beta1 = static_cast<T>(a.beta1), beta2 = static_cast<T>(a.beta2);
  const T rest1 = static_cast<T>(1 - a.beta1), rest2 = static_cast<T>(1 - a.beta2);
  const T eps = static_cast<T>(a.eps), scale = static_cast<T>(a.grad_scale);
  const T step = static_cast<T>(a.lr / a.correction1);
  const T unbias2 = static_cast<T>(1 / a.correction2);
  const T decay = static_cast<T>(1 - a.lr * a.weight_decay);
  auto* p = static_cast<const T*>(t.p) + begin;
  auto* g = static_cast<const G*>(t.g) + begin;
  auto* m = static_cast<const T*>(t.m) + begin;
  auto* v = static_cast<const T*>(t.v) + begin;
  auto* p_out = static_cast<T*>(t.p_out) + begin;
  auto* m_out = static_cast<T*>(t.m_out) + begin;
  auto* v_out = static_cast<T*>(t.v_out) + begin;
  for_vectors<V>(end - begin, [&](int64_t i, auto... tail) {
    V grad;
    if constexpr (sizeof(V{}[0]) == sizeof(VecOf<G>{}[0])) {
      grad = load(g + i, tail...);
    } else {  // f64 state with gradients of f32 or bf16
      for (int l = 0; l < kLanesOf<V>; ++l) grad[l] = i + l < end - begin ? value(g + i + l) : 0;
    }
    grad = grad * scale;
    const V new_m = beta1 * load(m + i, tail...) + rest1 * grad;
    const V new_v = beta2 * load(v + i, tail...) + rest2 * (grad * grad);
    const V new_p = load(p + i, tail...) * decay - step * new_m / (sqrt_of(new_v * unbias2) + eps);
    store(m_out + i, new_m, tail...);
    store(v_out + i, new_v, tail...);
    store(p_out + i, new_p, tail...);
  });
}

void adamw_range(DType dtype, DType grad, const AdamwRates& scalars, const AdamwTensors& tensors,
                 int64_t begin, int64_t end) {
  with_float(grad, [&](auto g) {
    using G = decltype(g);
    if (dtype == DType::kF64) {
      adamw_typed<G, double>(scalars, tensors, begin, end);
    } else if constexpr (sizeof(G) != 8) {
      adamw_typed<G, float>(scalars, tensors, begin, end);
    }
  });
}

// y[dim] = sum over j of gate[j] * row[j][dim]; no rows give zeros.
void weighted_rows(DType dtype, const void* const* rows, const double* gates, int64_t count,
                   int64_t dim, void* out) {
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    using V = VecOf<S>;
    S* y = static_cast<S*>(out);
    for_vectors<V>(dim, [&](int64_t i, auto... tail) {
      V sum = {};
      for (int64_t j = 0; j < count; ++j) {
        sum +=
            load(static_cast<const S*>(rows[j]) + i, tail...) * static_cast<ScalarOf<S>>(gates[j]);
      }
      store(y + i, sum, tail...);
    });
  });
}

double dot_rows(DType dtype, const void* x, const void* y, int64_t dim) {
  double result = 0;
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    result = row_dot(static_cast<const S*>(x), static_cast<const S*>(y), dim);
  });
  return result;
}

// sum[dim] += row[dim], the sum in the compute type.
void add_row(DType dtype, const void* row, int64_t dim, void* sum) {
  if (dtype == DType::kI32) {
    auto* y = static_cast<int32_t*>(sum);
    auto* x = static_cast<const int32_t*>(row);
    for_vectors<vi>(dim, [&](int64_t i, auto... tail) {
      store(y + i, add_of(load(y + i, tail...), load(x + i, tail...)), tail...);
    });
    return;
  }
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    auto* y = static_cast<ScalarOf<S>*>(sum);
    auto* x = static_cast<const S*>(row);
    for_vectors<VecOf<S>>(dim, [&](int64_t i, auto... tail) {
      store(y + i, load(y + i, tail...) + load(x + i, tail...), tail...);
    });
  });
}

void widen_bf16(const void* x, float* y, int64_t n) {
  auto* in = static_cast<const bf16*>(x);
  for_vectors<vf>(n,
                  [&](int64_t i, auto... tail) { store(y + i, load(in + i, tail...), tail...); });
}

void narrow_bf16(const float* x, void* y, int64_t n) {
  auto* out = static_cast<bf16*>(y);
  for_vectors<vf>(n,
                  [&](int64_t i, auto... tail) { store(out + i, load(x + i, tail...), tail...); });
}
