// Products against panels: kPanelCols columns of a right-hand side, copied so that a step of k
// reads consecutive memory. A panel is [k, kPanelCols]; of bf16 [k / 2, kPanelCols] pairs of
// neighbours along k, the last with a zero if k is odd.

// Swaps the blocks beside the diagonal, of `kHalf` lanes: one stage of a transpose of kLanes
// vectors.
template <int kHalf, class V, int... i>
inline void swap_blocks(V& a, V& b, std::integer_sequence<int, i...>) {
  constexpr int kCount = sizeof...(i);
  const V first = __builtin_shufflevector(a, b, ((i & kHalf) == 0 ? i : kCount + i - kHalf)...);
  b = __builtin_shufflevector(a, b, ((i & kHalf) == 0 ? i + kHalf : kCount + i)...);
  a = first;
}
template <int kHalf, class V>
inline void transpose_stages(V* v) {
  constexpr int kCount = kLanesOf<V>;
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    if ((i & kHalf) == 0)
      swap_blocks<kHalf>(v[i], v[i + kHalf], std::make_integer_sequence<int, kCount>{});
  }
  if constexpr (kHalf > 1) transpose_stages<kHalf / 2>(v);
}

// Up to a vector of elements that may be fewer; zeros behind them.
template <class V, class S>
inline V load_some(const S* p, int64_t bytes) {
  if (bytes >= static_cast<int64_t>(sizeof(V))) return load_raw<V>(p);
  V v = {};
  if (bytes > 0) __builtin_memcpy(&v, p, static_cast<size_t>(bytes));
  return v;
}

// x[cols, rows] with `stride` between columns -> panel. A lane holds kPer elements along k.
template <class V, int kPer, class S, class P>
inline void pack_columns(const S* x, int64_t stride, int64_t rows, int64_t cols, P* panel) {
  constexpr int kCount = kLanesOf<V>;
  constexpr auto kSize = static_cast<int64_t>(sizeof(S));
  const int64_t lines = (rows + kPer - 1) / kPer;
  for (int64_t k = 0; k < lines; k += kCount) {
    for (int64_t j = 0; j < kPanelCols; j += kCount) {
      V v[kCount];
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) {
        v[i] = j + i < cols
                   ? load_some<V>(x + (j + i) * stride + k * kPer, (rows - k * kPer) * kSize)
                   : V{};
      }
      transpose_stages<kCount / 2>(v);
      const int64_t count = lines - k < kCount ? lines - k : kCount;
      for (int64_t i = 0; i < count; ++i) store_raw(panel + (k + i) * kPanelCols + j, v[i]);
    }
  }
}

// body(j, tail...) over `width` columns: whole vectors, one with a tail, empty ones.
template <class V, class Body, class Empty>
inline void for_panel(int64_t cols, int64_t width, const Body& body, const Empty& empty) {
  for_vectors<V>(cols, body);
  for (int64_t j = round_up(cols, kLanesOf<V>); j < width; j += kLanesOf<V>) {
    empty(j);
  }
}

// Number of rows (bf16: of pairs of rows) that are packed for one panel before the next panel's.
// Packing prefetches as many rows ahead, since the processor does not guess where the next row of a
// strip begins.
constexpr int64_t kPackSlice = 16;

template <class T>
inline void pack_rows_of(const T* x, int64_t stride, int64_t rows, int64_t cols, T* panel) {
  using V = VecOf<T>;
  for (int64_t k = 0; k < rows; ++k, x += stride, panel += kPanelCols) {
    for_panel<V>(
        cols, kPanelCols,
        [&](int64_t j, auto... tail) {
          prefetch(x + j, kPackSlice * stride * static_cast<int64_t>(sizeof(T)));
          store(panel + j, load(x + j, tail...));
        },
        [&](int64_t j) { store(panel + j, V{}); });
  }
}

// Lines of the panel are `width` long.
inline void pack_pairs_of_rows(const bf16* x, int64_t stride, int64_t rows, int64_t cols,
                               int64_t width, uint32_t* panel) {
  for (int64_t k = 0; k < rows; k += 2, x += 2 * stride, panel += width) {
    for_panel<vf>(
        cols, width,
        [&](int64_t j, auto... tail) {
          // A line of memory is two vectors or more: the even ones ask for the first row, the odd
          // ones for the second.
          prefetch(x + j + (j / kLanes % 2) * stride, kPackSlice * stride * 4);
          const vu low = widen(load_raw<vh>(x + j, tail...));
          const vu high = k + 1 < rows ? widen(load_raw<vh>(x + stride + j, tail...)) : vu{};
          store_raw(panel + j, low | (high << 16));
        },
        [&](int64_t j) { store_raw(panel + j, vu{}); });
  }
}

template <class S>
struct Packed {
  using T = S;
  using V = VecOf<S>;
};
template <>
struct Packed<bf16> {
  using T = uint32_t;
  using V = vu;
};

// A few rows of all panels after the other: whole rows of x pass through the cache.
void pack_panels(const PanelPack& p) {
  with_float(p.dtype, [&](auto s) {
    using S = decltype(s);
    constexpr bool kPairs = __is_same(S, bf16);
    using P = typename Packed<S>::T;
    constexpr int64_t kPer = kPairs ? 2 : 1, kSlice = kPackSlice * kPer;
    for (int64_t k = 0; k < p.rows; k += kSlice) {
      const int64_t rows = p.rows - k < kSlice ? p.rows - k : kSlice;
      for (int64_t j = 0; j < p.cols; j += kPanelCols) {
        const int64_t cols = p.cols - j < kPanelCols ? p.cols - j : kPanelCols;
        const S* x = static_cast<const S*>(p.x) + k * p.row + j * p.col;
        P* panel = static_cast<P*>(p.panel) + j / kPanelCols * p.next + k / kPer * kPanelCols;
        if (p.col != 1) {
          pack_columns<typename Packed<S>::V, kPer>(x, p.col, rows, cols, panel);
        } else if constexpr (kPairs) {
          pack_pairs_of_rows(x, p.row, rows, cols, kPanelCols, panel);
        } else {
          pack_rows_of(x, p.row, rows, cols, panel);
        }
      }
    }
  });
}

// Whole vectors go where they belong; others by way of a tile on the stack.
template <class M, class O>
inline void panel_product_typed(const PanelProduct& p) {
  using V = typename M::Out;
  constexpr int64_t kWidth = kLanesOf<V>;
  const auto *a = static_cast<const typename M::In*>(p.a),
             *panel = static_cast<const typename M::In*>(p.panel);
  O* c = static_cast<O*>(p.c);
  const int64_t padded_n = round_up(p.n, kWidth);
  if (padded_n == p.n) {
    return gemm<M, O>(
        {a, p.a_row, p.a_col, panel, kPanelCols, c, p.ldc, p.m, p.n, p.k, p.accumulate});
  }
  alignas(64) O tile[kPanelRows * kPanelCols];
  gemm<M, O>({a, p.a_row, p.a_col, panel, kPanelCols, tile, kPanelCols, p.m, padded_n, p.k, false});
  for (int64_t r = 0; r < p.m; ++r) {
    __builtin_memcpy(c + r * p.ldc, tile + r * kPanelCols, static_cast<size_t>(p.n) * sizeof(O));
  }
}

void panel_product(const PanelProduct& p) {
  if (p.in == DType::kF64) return panel_product_typed<Plain<vd>, double>(p);
  if (p.in == DType::kF32) return panel_product_typed<Plain<vf>, float>(p);
  if (p.native) {
    return p.out == DType::kBF16 ? panel_product_typed<Pairs<true>, bf16>(p)
                                 : panel_product_typed<Pairs<true>, float>(p);
  }
  return p.out == DType::kBF16 ? panel_product_typed<Pairs<false>, bf16>(p)
                               : panel_product_typed<Pairs<false>, float>(p);
}
