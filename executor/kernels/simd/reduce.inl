// One piece of a reduction: x[count, inner] over its first axis, into a [inner] result of the
// compute type.

template <class S>
struct ReduceLane {  // Compute vectors of a storage type; i32 sums wrap, hence unsigned.
  using V = VecOf<S>;
  using T = ScalarOf<S>;
};
template <>
struct ReduceLane<int32_t> {
  using V = vi;
  using T = int32_t;
};
inline vi load(const int32_t* p) { return load_raw<vi>(p); }
inline vi load(const int32_t* p, int64_t n) { return load_raw<vi>(p, n); }
inline void store(int32_t* p, vi v) { store_raw(p, v); }
inline void store(int32_t* p, vi v, int64_t n) { store_raw(p, v, n); }

template <class V>
inline V add_of(V a, V b) {
  return a + b;
}
template <>
inline vi add_of<vi>(vi a, vi b) {
  return (vi)((vu)a + (vu)b);
}
template <class V>
inline V reduce_of(ReduceOp op, V a, V b) {
  return op == ReduceOp::kSum ? add_of(a, b) : (op == ReduceOp::kMax ? max_of(a, b) : min_of(a, b));
}

// The same on halves of vectors and on single lanes.
template <ReduceOp op, class T>
inline T reduce_scalar_or_vector(T a, T b) {
  if constexpr (op == ReduceOp::kSum) return a + b;  // i32 comes as unsigned: it may wrap.
  if constexpr (op == ReduceOp::kMax) return ((a > b) | (a != a)) ? a : b;
  if constexpr (op == ReduceOp::kMin) return ((a < b) | (a != a)) ? a : b;
}

template <class T>
inline T reduce_start(ReduceOp op) {
  if (op == ReduceOp::kSum) return T{0};
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5f) == T{0}) {
    return op == ReduceOp::kMax ? INT32_MIN : INT32_MAX;
  } else {
    return static_cast<T>(op == ReduceOp::kMax ? -__builtin_inf() : __builtin_inf());
  }
}

// inner == 1. Four sums in flight hide the latency of one.
template <ReduceOp op, class S>
inline void reduce_line(const S* x, int64_t count, typename ReduceLane<S>::T* y) {
  using V = typename ReduceLane<S>::V;
  using T = typename ReduceLane<S>::T;
  constexpr int kWidth = kLanesOf<V>;
  const T start = reduce_start<T>(op);
  V part[4] = {V{} + start, V{} + start, V{} + start, V{} + start};
  const int64_t steps = count / (4 * kWidth), length = run_length(steps);
  for (int64_t first = 0; first < steps; first += length) {
    V run[4] = {V{} + start, V{} + start, V{} + start, V{} + start};
    const int64_t end = first + length < steps ? first + length : steps;
    for (int64_t step = first; step < end; ++step) {
      for (int j = 0; j < 4; ++j) run[j] = reduce_of(op, run[j], load(x + (4 * step + j) * kWidth));
    }
    for (int j = 0; j < 4; ++j) part[j] = reduce_of(op, part[j], run[j]);
  }
  const int64_t i = steps * 4 * kWidth;
  for_vectors<V>(count - i, [&](int64_t j, auto... tail) {
    part[0] = reduce_of(op, part[0], with_tail(load(x + i + j, tail...), start, tail...));
  });
  V all = reduce_of(op, reduce_of(op, part[0], part[1]), reduce_of(op, part[2], part[3]));
  auto join = [](auto a, auto b) { return reduce_scalar_or_vector<op>(a, b); };
  if constexpr (op == ReduceOp::kSum && __is_same(V, vi)) {
    *y = static_cast<T>(fold_lanes((vu)all, join));
  } else {
    *y = fold_lanes(all, join);
  }
}

// Column blocks of eight vectors stay in registers over the whole piece.
template <ReduceOp op, class S>
inline void reduce_columns(const S* x, int64_t count, int64_t inner, typename ReduceLane<S>::T* y) {
  using V = typename ReduceLane<S>::V;
  using T = typename ReduceLane<S>::T;
  constexpr int kWidth = kLanesOf<V>, kBlock = 8;
  const V start = V{} + reduce_start<T>(op);
  const int64_t length = run_length(count);
  int64_t i = 0;
  for (; i + kBlock * kWidth <= inner; i += kBlock * kWidth) {
    V part[kBlock];
    for (V& p : part) p = start;
    for (int64_t first = 0; first < count; first += length) {
      V run[kBlock];
      for (V& p : run) p = start;
      const int64_t end = first + length < count ? first + length : count;
      for (int64_t r = first; r < end; ++r) {
        for (int j = 0; j < kBlock; ++j)
          run[j] = reduce_of(op, run[j], load(x + r * inner + i + j * kWidth));
      }
      for (int j = 0; j < kBlock; ++j) part[j] = reduce_of(op, part[j], run[j]);
    }
    for (int j = 0; j < kBlock; ++j) store(y + i + j * kWidth, part[j]);
  }
  for_vectors<V>(inner - i, [&](int64_t j, auto... tail) {
    V part = start;
    for (int64_t first = 0; first < count; first += length) {
      V run = start;
      const int64_t end = first + length < count ? first + length : count;
      for (int64_t r = first; r < end; ++r)
        run = reduce_of(op, run, load(x + r * inner + i + j, tail...));
      part = reduce_of(op, part, run);
    }
    store(y + i + j, part, tail...);
  });
}

template <class S>
inline void reduce_typed(ReduceOp op, const S* x, int64_t count, int64_t inner, void* out) {
  auto* y = static_cast<typename ReduceLane<S>::T*>(out);
  auto go = [&](auto tag) {
    constexpr ReduceOp kOp = decltype(tag)::value;
    inner == 1 ? reduce_line<kOp>(x, count, y) : reduce_columns<kOp>(x, count, inner, y);
  };
  if (op == ReduceOp::kSum) go(OpTag<ReduceOp::kSum>{});
  if (op == ReduceOp::kMax) go(OpTag<ReduceOp::kMax>{});
  if (op == ReduceOp::kMin) go(OpTag<ReduceOp::kMin>{});
}

void reduce_piece(ReduceOp op, DType dtype, const void* x, int64_t count, int64_t inner,
                  void* out) {
  if (dtype == DType::kI32) {
    reduce_typed(op, static_cast<const int32_t*>(x), count, inner, out);
  } else {
    with_float(dtype, [&](auto s) {
      reduce_typed(op, static_cast<const decltype(s)*>(x), count, inner, out);
    });
  }
}

// Squares of f32 and bf16 are summed in f64: a norm over millions of small gradients keeps its
// digits.
double sum_squares_piece(DType dtype, const void* data, int64_t n) {
  double total = 0;
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    using V = VecOf<S>;
    constexpr int kWidth = kLanesOf<V>;
    constexpr int64_t kRun = 16 * 4 * kWidth;
    const S* x = static_cast<const S*>(data);
    for (int64_t first = 0; first < n; first += kRun) {
      const int64_t count = n - first < kRun ? n - first : kRun;
      V part[4] = {};
      int64_t i = first;
      for (; i + 4 * kWidth <= first + count; i += 4 * kWidth) {
        for (int j = 0; j < 4; ++j) {
          const V v = load(x + i + j * kWidth);
          part[j] += v * v;
        }
      }
      for_vectors<V>(first + count - i, [&](int64_t j, auto... tail) {
        const V v = load(x + i + j, tail...);
        part[0] += v * v;
      });
      total += static_cast<double>(sum_lanes((part[0] + part[1]) + (part[2] + part[3])));
    }
  });
  return total;
}

bool finite_piece(DType dtype, const void* data, int64_t n) {
  bool finite = true;
  with_float(dtype, [&](auto s) {
    using S = decltype(s);
    using V = VecOf<S>;
    const S* x = static_cast<const S*>(data);
    V bad = {};  // x - x is 0 of a finite number, else NaN; NaN stays.
    for_vectors<V>(n, [&](int64_t i, auto... tail) {
      const V v = load(x + i, tail...);
      bad += v - v;
    });
    finite = sum_lanes(bad) == 0;
  });
  return finite;
}
