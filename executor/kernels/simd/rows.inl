// Softmax, cross-entropy and their gradients over rows [begin, end).

template <class S>
constexpr ScalarOf<S> kInfinity = static_cast<ScalarOf<S>>(__builtin_inf());

// A NaN may or may not be taken for the maximum; either way the exponentials that follow make the
// row NaN.
template <class S>
inline ScalarOf<S> row_max(const S* x, int64_t n) {
  using V = VecOf<S>;
  V best = V{} - kInfinity<S>;
  for_vectors<V>(n, [&](int64_t i, auto... tail) {
    best = plain_max(best, with_tail(load(x + i, tail...), -kInfinity<S>, tail...));
  });
  return max_lanes(best);
}

template <class S>
inline ScalarOf<S> row_exp_sum(const S* x, ScalarOf<S> shift, int64_t n) {
  using V = VecOf<S>;
  V sum = {};
  for_vectors<V>(n, [&](int64_t i, auto... tail) {
    sum += exp_of(with_tail(load(x + i, tail...), -kInfinity<S>, tail...) - shift);
  });
  return sum_lanes(sum);
}

template <class S>
inline ScalarOf<S> row_dot(const S* x, const S* y, int64_t n) {
  using V = VecOf<S>;
  V sum = {};
  for_vectors<V>(
      n, [&](int64_t i, auto... tail) { sum += load(x + i, tail...) * load(y + i, tail...); });
  return sum_lanes(sum);
}

inline float log_scalar(float x) { return log_of(vf{} + x)[0]; }
inline double log_scalar(double x) { return __builtin_log(x); }

template <class S>
inline void softmax_typed(const S* x, S* y, int64_t rows, int64_t cols) {
  using V = VecOf<S>;
  for (int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const auto shift = row_max(x, cols);
    const auto scale = 1 / row_exp_sum(x, shift, cols);
    for_vectors<V>(cols, [&](int64_t i, auto... tail) {
      store(y + i, exp_of(load(x + i, tail...) - shift) * scale, tail...);
    });
  }
}

template <class S>
inline void softmax_grad_typed(const S* y, const S* dy, S* dx, int64_t rows, int64_t cols) {
  using V = VecOf<S>;
  for (int64_t r = 0; r < rows; ++r, y += cols, dy += cols, dx += cols) {
    const auto mean = row_dot(y, dy, cols);
    for_vectors<V>(cols, [&](int64_t i, auto... tail) {
      store(dx + i, load(y + i, tail...) * (load(dy + i, tail...) - mean), tail...);
    });
  }
}

template <class S>
inline void cross_entropy_typed(const CrossEntropyRows& a, int64_t begin, int64_t end) {
  using T = ScalarOf<S>;
  for (int64_t r = begin; r < end; ++r) {
    const S* x = static_cast<const S*>(a.logits) + r * a.classes;
    const T shift = row_max(x, a.classes);
    const T lse = shift + log_scalar(row_exp_sum(x, shift, a.classes));
    const int32_t label = a.labels[r];
    const bool good = label >= 0 && label < a.classes;
    static_cast<T*>(a.loss)[r] = good ? lse - value(x + label) : static_cast<T>(__builtin_nan(""));
    if (a.lse != nullptr) static_cast<T*>(a.lse)[r] = lse;
  }
}

template <class S>
inline void cross_entropy_grad_typed(const CrossEntropyGradRows& a, int64_t begin, int64_t end) {
  using T = ScalarOf<S>;
  using V = VecOf<S>;
  for (int64_t r = begin; r < end; ++r) {
    const S* x = static_cast<const S*>(a.logits) + r * a.classes;
    S* dx = static_cast<S*>(a.dlogits) + r * a.classes;
    const int32_t label = a.labels[r];
    const bool good = label >= 0 && label < a.classes;
    const T scale = good ? static_cast<const T*>(a.dloss)[r] : static_cast<T>(__builtin_nan(""));
    T lse;
    if (a.lse != nullptr) {
      lse = static_cast<const T*>(a.lse)[r];
    } else {
      const T shift = row_max(x, a.classes);
      lse = shift + log_scalar(row_exp_sum(x, shift, a.classes));
    }
    // The label's own entry is computed from the unrounded probability, before dx may overwrite the
    // logits.
    T own = 0;
    if (good) own = (exp_of(V{} + (value(x + label) - lse))[0] - 1) * scale;
    for_vectors<V>(a.classes, [&](int64_t i, auto... tail) {
      store(dx + i, exp_of(load(x + i, tail...) - lse) * scale, tail...);
    });
    if (good) put(dx + label, own);
  }
}

// Calls body with a value of the storage type of a float dtype.
template <class Body>
inline void with_float(DType dtype, const Body& body) {
  if (dtype == DType::kF32) body(float{});
  if (dtype == DType::kBF16) body(bf16{});
  if (dtype == DType::kF64) body(double{});
}

void softmax_rows(DType dtype, const void* x, void* y, int64_t begin, int64_t end, int64_t cols) {
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    softmax_typed(static_cast<const S*>(x) + begin * cols, static_cast<S*>(y) + begin * cols,
                  end - begin, cols);
  });
}

void softmax_grad_rows(DType dtype, const void* y, const void* dy, void* dx, int64_t begin,
                       int64_t end, int64_t cols) {
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    softmax_grad_typed(static_cast<const S*>(y) + begin * cols,
                       static_cast<const S*>(dy) + begin * cols, static_cast<S*>(dx) + begin * cols,
                       end - begin, cols);
  });
}

void cross_entropy_rows(const CrossEntropyRows& args, int64_t begin, int64_t end) {
  with_float(args.dtype, [&](auto s) { cross_entropy_typed<decltype(s)>(args, begin, end); });
}

void cross_entropy_grad_rows(const CrossEntropyGradRows& args, int64_t begin, int64_t end) {
  with_float(args.dtype, [&](auto s) { cross_entropy_grad_typed<decltype(s)>(args, begin, end); });
}
