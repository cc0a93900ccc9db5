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
  return sum_lanes(sum_in_runs<V>(n, [&](int64_t i, auto... tail) {
    return exp_of(with_tail(load(x + i, tail...), -kInfinity<S>, tail...) - shift);
  }));
}

template <class S>
inline ScalarOf<S> row_dot(const S* x, const S* y, int64_t n) {
  using V = VecOf<S>;
  return sum_lanes(sum_in_runs<V>(
      n, [&](int64_t i, auto... tail) { return load(x + i, tail...) * load(y + i, tail...); }));
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

template <class T>
struct RowTop {
  T largest, log_sum;  // The logarithm of the sum of exp(x - largest).
};

template <class S>
inline RowTop<ScalarOf<S>> row_top(const S* x, int64_t n) {
  const ScalarOf<S> largest = row_max(x, n);
  return {largest, log_scalar(row_exp_sum(x, largest, n))};
}

template <class S, class Args>
inline const S* row_of(const Args& a, int64_t r) {
  return static_cast<const S*>(a.logits) + r * a.classes;
}

inline bool is_class(int32_t label, int64_t classes) { return label >= 0 && label < classes; }

// An offset that all logits of the row share cancels in x[label] - largest, before it costs digits.
template <class S>
inline void loss_of_row(const CrossEntropyRows& a, int64_t r, RowTop<ScalarOf<S>> top) {
  using T = ScalarOf<S>;
  const S* x = row_of<S>(a, r);
  const int32_t label = a.labels[r];
  static_cast<T*>(a.loss)[r] = is_class(label, a.classes)
                                   ? top.log_sum - (value(x + label) - top.largest)
                                   : static_cast<T>(__builtin_nan(""));
  if (a.log_sum != nullptr) static_cast<T*>(a.log_sum)[r] = top.log_sum;
}

template <class S>
inline void gradient_of_row(const CrossEntropyGradRows& a, int64_t r, RowTop<ScalarOf<S>> top) {
  using T = ScalarOf<S>;
  using V = VecOf<S>;
  const S* x = row_of<S>(a, r);
  S* dx = static_cast<S*>(a.dlogits) + r * a.classes;
  const int32_t label = a.labels[r];
  const bool good = is_class(label, a.classes);
  const T scale = good ? static_cast<const T*>(a.dloss)[r] : static_cast<T>(__builtin_nan(""));
  const auto share = [&](V logit) { return exp_of(logit - top.largest - top.log_sum); };
  // The label's own entry is computed from the unrounded probability, before dx may overwrite the
  // logits.
  T own = 0;
  if (good) own = (share(V{} + value(x + label))[0] - 1) * scale;
  for_vectors<V>(a.classes, [&](int64_t i, auto... tail) {
    store(dx + i, share(load(x + i, tail...)) * scale, tail...);
  });
  if (good) put(dx + label, own);
}

template <class S>
inline void cross_entropy_typed(const CrossEntropyRows& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) loss_of_row<S>(a, r, row_top(row_of<S>(a, r), a.classes));
}

template <class S>
inline void cross_entropy_grad_typed(const CrossEntropyGradRows& a, int64_t begin, int64_t end) {
  using T = ScalarOf<S>;
  for (int64_t r = begin; r < end; ++r) {
    const S* x = row_of<S>(a, r);
    gradient_of_row<S>(a, r,
                       a.log_sum == nullptr
                           ? row_top(x, a.classes)
                           : RowTop<T>{row_max(x, a.classes), static_cast<const T*>(a.log_sum)[r]});
  }
}

template <class S>
inline void cross_entropy_and_grad_typed(const CrossEntropyRows& loss,
                                         const CrossEntropyGradRows& grad, int64_t begin,
                                         int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const RowTop<ScalarOf<S>> top = row_top(row_of<S>(loss, r), loss.classes);
    loss_of_row<S>(loss, r, top);
    gradient_of_row<S>(grad, r, top);
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

void cross_entropy_and_grad_rows(const CrossEntropyRows& loss, const CrossEntropyGradRows& grad,
                                 int64_t begin, int64_t end) {
  with_float(loss.dtype,
             [&](auto s) { cross_entropy_and_grad_typed<decltype(s)>(loss, grad, begin, end); });
}
