#include "executor/kernels/matmul.h"

#include <algorithm>
#include <optional>

#include "executor/kernels/dnnl_matmul.h"
#include "executor/kernels/move.h"
#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

size_t aligned(size_t bytes) { return align_up(bytes, 64); }

// Rows of one primitive call: enough blocks of all items to share out, each long enough to repay
// packing the right-hand side.
int64_t block_rows(int64_t batch, int64_t m, int64_t n, int64_t k) {
  constexpr double kSmall = 1 << 20;  // Multiply-adds below which one call is best.
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < kSmall) return m;
  if (m < 256) return m < 2 ? m : std::min(m, align_up(m / 2, 16));
  return std::clamp<int64_t>(align_up(batch * m / 16, 32), 128, std::min<int64_t>(m, 512));
}

// Fills in dense strides and joins batch items that lie behind one another into rows of one
// product.
MatmulDesc resolved(MatmulDesc d) {
  if (d.lda == 0) d.lda = d.transpose_a ? d.m : d.k;
  if (d.ldb == 0) d.ldb = d.transpose_b ? d.k : d.n;
  if (d.ldc == 0) d.ldc = d.n;
  auto stride = [&](int64_t& s, int64_t dense) { s = s == 0 ? dense : (s == kSameMatrix ? 0 : s); };
  stride(d.batch_stride_a, d.lda * (d.transpose_a ? d.k : d.m));
  stride(d.batch_stride_b, d.ldb * (d.transpose_b ? d.n : d.k));
  stride(d.batch_stride_c, d.ldc * d.m);
  const bool rows_follow = d.batch_stride_b == 0 && !d.transpose_a &&
                           d.batch_stride_a == d.lda * d.m && d.batch_stride_c == d.ldc * d.m;
  if (d.batch > 1 && rows_follow) {
    d.m *= d.batch;
    d.batch = 1;
  }
  return d;
}

void check(const MatmulDesc& d) {
  const bool same = d.a == d.b && (d.a == d.c || (d.a == DType::kBF16 && d.c == DType::kF32));
  GW_REQUIRE(same && is_float(d.a),
             "dot: no kernel for these types: expected f32, bf16 or f64 on both sides, got ",
             to_string(d.a), " x ", to_string(d.b), " -> ", to_string(d.c));
  GW_REQUIRE(d.batch >= 0 && d.m >= 0 && d.n >= 0 && d.k >= 0,
             "dot: sizes must not be negative: got batch ", d.batch, ", m ", d.m, ", n ", d.n,
             ", k ", d.k);
}

}  // namespace

struct Matmul::Impl {
  MatmulDesc desc;
  int64_t block = 0, blocks = 0;  // Rows of a block; blocks of a batch item.
  bool widened = false;           // bf16 computed in f32 copies, dense.
  std::optional<DnnlMatmul> whole, rest;
  size_t primitive_bytes = 0;

  bool empty() const { return desc.batch == 0 || desc.m == 0 || desc.n == 0; }
  int64_t rows_of(int64_t b) const { return std::min(block, desc.m - b * block); }

  size_t a_bytes() const {
    return widened
               ? aligned(4 *
                         static_cast<size_t>(extent(
                             desc.batch_stride_a, desc.lda * (desc.transpose_a ? desc.k : desc.m))))
               : 0;
  }
  size_t b_bytes() const {
    return widened
               ? aligned(4 *
                         static_cast<size_t>(extent(
                             desc.batch_stride_b, desc.ldb * (desc.transpose_b ? desc.n : desc.k))))
               : 0;
  }
  // Elements from the first to behind the last of all batch items.
  int64_t extent(int64_t batch_stride, int64_t one) const {
    return (desc.batch - 1) * batch_stride + one;
  }

  void run_dnnl(Parallel& par, const void* a, const void* b, void* c, std::byte* scratch) const;
  void run_double(Parallel& par, const double* a, const double* b, double* c) const;
};

Matmul::Matmul(const MatmulDesc& desc, KernelIsa isa) {
  check(desc);
  auto impl = std::make_unique<Impl>();
  MatmulDesc& d = impl->desc;
  d = resolved(desc);
  if (d.a != DType::kF64 && !impl->empty() && d.k > 0) {
    impl->block = block_rows(d.batch, d.m, d.n, d.k);
    impl->blocks = ceil_div(d.m, impl->block);
    impl->widened = d.a == DType::kBF16 && !has_native_bf16(isa);
    DnnlMatmulDesc one{.in = impl->widened ? DType::kF32 : d.a,
                       .out = d.c,
                       .m = impl->block,
                       .n = d.n,
                       .k = d.k,
                       .transpose_a = d.transpose_a,
                       .transpose_b = d.transpose_b,
                       .lda = d.lda,
                       .ldb = d.ldb,
                       .ldc = d.ldc,
                       .accumulate = d.accumulate};
    if (impl->widened) one.out = DType::kF32;
    if (impl->widened && d.c == DType::kBF16) one.accumulate = false, one.ldc = d.n;
    impl->whole.emplace(one);
    impl->primitive_bytes = impl->whole->scratch_bytes();
    if (d.m % impl->block != 0) {
      one.m = d.m % impl->block;
      impl->rest.emplace(one);
      impl->primitive_bytes = std::max(impl->primitive_bytes, impl->rest->scratch_bytes());
    }
    impl->primitive_bytes = aligned(impl->primitive_bytes);
  }
  impl_ = std::move(impl);
}

Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

// Layout: widened a, widened b, then for each block the primitive's scratch (per thread slot) and,
// for a bf16 result that is rounded from f32, the block's own rows.
size_t Matmul::scratch_bytes(int threads) const {
  const Impl& s = *impl_;
  if (!s.whole) return 0;
  const bool narrowed = s.widened && s.desc.c == DType::kBF16;
  const size_t rows = narrowed ? aligned(4 * static_cast<size_t>(s.block * s.desc.n)) : 0;
  return s.a_bytes() + s.b_bytes() + static_cast<size_t>(threads) * (s.primitive_bytes + rows);
}

void Matmul::Impl::run_dnnl(Parallel& par, const void* a, const void* b, void* c,
                            std::byte* scratch) const {
  if (widened) {
    auto* wide_a = reinterpret_cast<float*>(scratch);
    auto* wide_b = reinterpret_cast<float*>(scratch + a_bytes());
    const int64_t na = extent(desc.batch_stride_a, desc.lda * (desc.transpose_a ? desc.k : desc.m));
    const int64_t nb = extent(desc.batch_stride_b, desc.ldb * (desc.transpose_b ? desc.n : desc.k));
    convert(par, DType::kBF16, DType::kF32, a, wide_a, na);
    convert(par, DType::kBF16, DType::kF32, b, wide_b, nb);
    a = wide_a;
    b = wide_b;
    scratch += a_bytes() + b_bytes();
  }
  const DType in = widened ? DType::kF32 : desc.a;
  const bool narrowed = widened && desc.c == DType::kBF16;
  const size_t room =
      primitive_bytes + (narrowed ? aligned(4 * static_cast<size_t>(block * desc.n)) : 0);
  const int64_t units = desc.batch * blocks;
  const int64_t parts = std::min<int64_t>(par.threads(), units);

  auto unit = [&](int64_t u, std::byte* own) {
    const int64_t item = u / blocks, row = u % blocks * block, rows = rows_of(u % blocks);
    const DnnlMatmul& product = rows == block ? *whole : *rest;
    auto* at = static_cast<const std::byte*>(a) +
               static_cast<int64_t>(size_of(in)) *
                   (item * desc.batch_stride_a + row * (desc.transpose_a ? 1 : desc.lda));
    auto* bt = static_cast<const std::byte*>(b) +
               static_cast<int64_t>(size_of(in)) * item * desc.batch_stride_b;
    auto* ct = static_cast<std::byte*>(c) + static_cast<int64_t>(size_of(desc.c)) *
                                                (item * desc.batch_stride_c + row * desc.ldc);
    if (!narrowed) return product.run(at, bt, ct, own);
    auto* wide = reinterpret_cast<float*>(own + primitive_bytes);
    product.run(at, bt, wide, own);
    for (int64_t r = 0; r < rows; ++r) {
      void* to = ct + r * desc.ldc * 2;
      if (desc.accumulate) par.simd().add_row(DType::kBF16, to, desc.n, wide + r * desc.n);
      par.simd().narrow_bf16(wide + r * desc.n, to, desc.n);
    }
  };
  par.for_each_chunk(parts, [&](int64_t p) {
    for (int64_t u = units * p / parts; u < units * (p + 1) / parts; ++u) {
      unit(u, scratch + static_cast<size_t>(p) * room);
    }
  });
}

void Matmul::Impl::run_double(Parallel& par, const double* a, const double* b, double* c) const {
  constexpr int64_t kRows = 48;
  const int64_t blocks_of_48 = ceil_div(desc.m, kRows);
  par.for_each_chunk(desc.batch * blocks_of_48, [&](int64_t u) {
    const int64_t item = u / blocks_of_48, begin = u % blocks_of_48 * kRows;
    const simd::DoubleGemm g{
        .a = a + item * desc.batch_stride_a,
        .a_row = desc.transpose_a ? 1 : desc.lda,
        .a_col = desc.transpose_a ? desc.lda : 1,
        .b = b + item * desc.batch_stride_b,
        .b_row = desc.transpose_b ? 1 : desc.ldb,
        .b_col = desc.transpose_b ? desc.ldb : 1,
        .c = c + item * desc.batch_stride_c,
        .c_row = desc.ldc,
        .n = desc.n,
        .k = desc.k,
        .accumulate = desc.accumulate,
    };
    par.simd().double_gemm_rows(g, begin, std::min(desc.m, begin + kRows));
  });
}

void Matmul::run(Parallel& par, const void* a, const void* b, void* c, void* scratch) const {
  const Impl& s = *impl_;
  if (s.empty()) return;
  if (s.desc.a == DType::kF64) {
    s.run_double(par, static_cast<const double*>(a), static_cast<const double*>(b),
                 static_cast<double*>(c));
  } else if (s.desc.k > 0) {
    s.run_dnnl(par, a, b, c, static_cast<std::byte*>(scratch));
  } else if (!s.desc.accumulate) {  // An empty sum.
    for (int64_t r = 0; r < s.desc.batch * s.desc.m; ++r) {
      const int64_t at = r / s.desc.m * s.desc.batch_stride_c + r % s.desc.m * s.desc.ldc;
      fill(par, s.desc.c, 0,
           static_cast<std::byte*>(c) + at * static_cast<int64_t>(size_of(s.desc.c)), s.desc.n);
    }
  }
}

}  // namespace gangway
