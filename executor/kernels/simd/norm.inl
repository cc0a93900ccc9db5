// RMS norm and layer norm over rows [begin, end), forward and backward. RMS norm is layer norm with
// a mean of zero.

// A parameter of dtype f32 beside rows of type S, or of the rows' own type; null means `otherwise`
// everywhere.
template <class S>
struct Param {
  const void* data;
  bool own;
  ScalarOf<S> otherwise;

  template <class... Tail>
  VecOf<S> at(int64_t i, Tail... tail) const {
    if (data == nullptr) return VecOf<S>{} + otherwise;
    if (own) return load(static_cast<const S*>(data) + i, tail...);
    return load(static_cast<const ScalarOf<S>*>(data) + i, tail...);
  }
};

template <class S>
struct RowStats {
  ScalarOf<S> mean, scale;
};

template <class S>
inline RowStats<S> row_stats(const NormRows& a, const S* x) {
  using V = VecOf<S>;
  using T = ScalarOf<S>;
  T mean = 0;
  if (a.centered) {
    const V sum =
        sum_in_runs<V>(a.dim, [&](int64_t i, auto... tail) { return load(x + i, tail...); });
    mean = sum_lanes(sum) / static_cast<T>(a.dim);
  }
  const V squares = sum_in_runs<V>(a.dim, [&](int64_t i, auto... tail) {
    const V d = with_tail(load(x + i, tail...) - mean, T{0}, tail...);
    return d * d;
  });
  const T variance = sum_lanes(squares) / static_cast<T>(a.dim);
  return {mean, 1 / sqrt_of(V{} + (variance + static_cast<T>(a.eps)))[0]};
}

template <class S>
inline void norm_typed(const NormRows& a, int64_t begin, int64_t end) {
  using V = VecOf<S>;
  const bool own = a.param == a.dtype;
  const Param<S> weight{a.weight, own, 1}, bias{a.bias, own, 0};
  for (int64_t r = begin; r < end; ++r) {
    const S* x = static_cast<const S*>(a.x) + r * a.dim;
    S* y = static_cast<S*>(a.y) + r * a.dim;
    const RowStats<S> s = row_stats(a, x);
    for_vectors<V>(a.dim, [&](int64_t i, auto... tail) {
      const V v = (load(x + i, tail...) - s.mean) * s.scale;
      store(y + i, v * weight.at(i, tail...) + bias.at(i, tail...), tail...);
    });
  }
}

// dx = scale * (g - mean(g) - xhat * mean(g * xhat)), g = dy * weight; without the first mean for
// RMS norm. dweight_sum and dbias_sum, [dim] of the compute type, are added to.
template <class S>
inline void norm_grad_typed(const NormRows& a, int64_t begin, int64_t end, ScalarOf<S>* dweight_sum,
                            ScalarOf<S>* dbias_sum) {
  using V = VecOf<S>;
  using T = ScalarOf<S>;
  const Param<S> weight{a.weight, a.param == a.dtype, 1};
  for (int64_t r = begin; r < end; ++r) {
    const S* x = static_cast<const S*>(a.x) + r * a.dim;
    const S* dy = static_cast<const S*>(a.dy) + r * a.dim;
    const RowStats<S> s = row_stats(a, x);
    V along = {}, total = {};
    for_vectors<V>(a.dim, [&](int64_t i, auto... tail) {
      const V xhat = with_tail((load(x + i, tail...) - s.mean) * s.scale, T{0}, tail...);
      const V d = load(dy + i, tail...);
      const V g = d * weight.at(i, tail...);
      along += g * xhat;
      total += with_tail(g, T{0}, tail...);
      if (dweight_sum != nullptr) {
        store(dweight_sum + i, load(dweight_sum + i, tail...) + d * xhat, tail...);
      }
      if (dbias_sum != nullptr) store(dbias_sum + i, load(dbias_sum + i, tail...) + d, tail...);
    });
    if (a.y == nullptr) continue;
    const T slope = sum_lanes(along) / static_cast<T>(a.dim);
    const T shift = a.centered ? sum_lanes(total) / static_cast<T>(a.dim) : T{0};
    S* dx = static_cast<S*>(a.y) + r * a.dim;
    for_vectors<V>(a.dim, [&](int64_t i, auto... tail) {
      const V xhat = (load(x + i, tail...) - s.mean) * s.scale;
      const V g = load(dy + i, tail...) * weight.at(i, tail...);
      store(dx + i, (g - shift - xhat * slope) * s.scale, tail...);
    });
  }
}

void norm_rows(const NormRows& args, int64_t begin, int64_t end) {
  with_float(args.dtype, [&](auto s) { norm_typed<decltype(s)>(args, begin, end); });
}

void norm_grad_rows(const NormRows& args, int64_t begin, int64_t end, void* dweight_sum,
                    void* dbias_sum) {
  with_float(args.dtype, [&](auto s) {
    using T = ScalarOf<decltype(s)>;
    norm_grad_typed<decltype(s)>(args, begin, end, static_cast<T*>(dweight_sum),
                                 static_cast<T*>(dbias_sum));
  });
}
