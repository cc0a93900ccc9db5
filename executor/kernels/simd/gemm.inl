// A matrix product on small operands that lie in cache: the core of attention, of experts and of
// f64 products.
//
//   c[m, n] = a x b, or c += a x b; element (i, k) of a lies at a[i * a_row + k * a_col]; b and c
//   are row-major and n is a multiple of the vector's lanes (callers pad). k is summed in order, so
//   a row's bits do not depend on m or n.

// How one element of a meets a line of b: plain numbers of the compute type,
template <class V>
struct Plain {
  using In = Element<V>;
  using Out = V;
  static constexpr bool kNative = false;
  static V line(const In* b) { return load(b); }
  static V spread(const In* a) { return V{} + *a; }
  static V add(V sum, V x, V line) { return sum + x * line; }
};
// or pairs of bf16, both behind one another along k: two steps of k at a time, summed in f32.
template <bool kBf16>
struct Pairs {
  using In = uint32_t;
  using Out = vf;
  static constexpr bool kNative = kBf16;
  static vu line(const In* b) { return load_raw<vu>(b); }
  static vu spread(const In* a) {
    uint32_t bits;
    __builtin_memcpy(&bits, a, 4);
    return vu{} + bits;
  }
  static vf add(vf sum, vu x, vu line) {
    if constexpr (kNative) return add_pairs(sum, x, line);
    return (sum + (vf)(x << 16) * (vf)(line << 16)) +
           (vf)(x & 0xFFFF0000u) * (vf)(line & 0xFFFF0000u);
  }
};

// A sum as it goes to memory: of the compute type, or bf16 once all of k is in it.
template <class M, class V>
inline void store_sum(Element<V>* c, V sum) {
  store(c, sum);
}
template <class M>
inline void store_sum(bf16* c, vf sum) {
  if constexpr (M::kNative) return store_raw(c, to_bf16_native(sum));
  store(c, sum);
}

// Only a c of the compute type can be accumulated.
template <class M, class O = Element<typename M::Out>>
struct GemmArgs {
  const typename M::In* a;
  int64_t a_row, a_col;
  const typename M::In* b;
  int64_t ldb;
  O* c;
  int64_t ldc;
  int64_t m, n, k;
  bool accumulate;
};

template <class M, int kRows, int kVecs, class O>
inline void gemm_tile(const GemmArgs<M, O>& g, int64_t i, int64_t j) {
  using V = typename M::Out;
  constexpr int kWidth = kLanesOf<V>;
  V sum[kRows][kVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) {
      sum[r][v] = g.accumulate ? load(g.c + (i + r) * g.ldc + j + v * kWidth) : V{};
    }
  }
  const auto* a = g.a + i * g.a_row;
  const auto* b = g.b + j;
  for (int64_t k = 0; k < g.k; ++k, a += g.a_col, b += g.ldb) {
    decltype(M::line(b)) line[kVecs];
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) line[v] = M::line(b + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto x = M::spread(a + r * g.a_row);
#pragma GCC unroll 16
      for (int v = 0; v < kVecs; ++v) sum[r][v] = M::add(sum[r][v], x, line[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) store_sum<M>(g.c + (i + r) * g.ldc + j + v * kWidth, sum[r][v]);
  }
}

template <class M, int kVecs, class O>
inline void gemm_column(const GemmArgs<M, O>& g, int64_t j) {
  int64_t i = 0;
  for (; i + kTileRows <= g.m; i += kTileRows) gemm_tile<M, kTileRows, kVecs>(g, i, j);
  if (i + 4 <= g.m) {
    gemm_tile<M, 4, kVecs>(g, i, j);
    i += 4;
  }
  for (; i + 2 <= g.m; i += 2) gemm_tile<M, 2, kVecs>(g, i, j);
  for (; i < g.m; ++i) gemm_tile<M, 1, kVecs>(g, i, j);
}

template <class M, class O = Element<typename M::Out>>
inline void gemm(const GemmArgs<M, O>& g) {
  constexpr int kWidth = kLanesOf<typename M::Out>;
  int64_t j = 0;
  for (; j + kTileVecs * kWidth <= g.n; j += kTileVecs * kWidth) gemm_column<M, kTileVecs>(g, j);
  for (; j + 2 * kWidth <= g.n; j += 2 * kWidth) gemm_column<M, 2>(g, j);
  for (; j < g.n; j += kWidth) gemm_column<M, 1>(g, j);
}

// Rows [begin, end) of a strided f64 product; see DoubleGemm in simd.h. Blocks of b are packed with
// zeros behind them.
void double_gemm_rows(const DoubleGemm& g, int64_t begin, int64_t end) {
  constexpr int64_t kM = 48, kN = 64, kK = 64;
  alignas(64) double b[kK * kN], c[kM * kN];
  for (int64_t j = 0; j < g.n; j += kN) {
    const int64_t cols = g.n - j < kN ? g.n - j : kN;
    for (int64_t i = begin; i < end; i += kM) {
      const int64_t rows = end - i < kM ? end - i : kM;
      for (double& x : c) x = 0;
      for (int64_t k = 0; k < g.k; k += kK) {
        const int64_t depth = g.k - k < kK ? g.k - k : kK;
        for (int64_t kk = 0; kk < depth; ++kk) {
          const double* from = g.b + (k + kk) * g.b_row + j * g.b_col;
          for (int64_t jj = 0; jj < kN; ++jj) b[kk * kN + jj] = jj < cols ? from[jj * g.b_col] : 0;
        }
        gemm<Plain<vd>>({g.a + i * g.a_row + k * g.a_col, g.a_row, g.a_col, b, kN, c, kN, rows, kN,
                         depth, true});
      }
      for (int64_t r = 0; r < rows; ++r) {
        double* to = g.c + (i + r) * g.c_row + j;
        for (int64_t jj = 0; jj < cols; ++jj) {
          const double x = c[r * kN + jj];
          to[jj] = g.accumulate ? to[jj] + x : x;
        }
      }
    }
  }
}
