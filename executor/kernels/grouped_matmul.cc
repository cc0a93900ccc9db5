#include "executor/kernels/grouped_matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "executor/kernels/dnnl_matmul.h"
#include "executor/kernels/move.h"
#include "executor/kernels/simd/simd.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr int64_t kTile = 64;  // Rows of one call: fixed sizes run in oneDNN's block kernels.

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

// The rows of one expert in one group, cut to the buffer.
struct Segment {
  int64_t expert, first, rows;  // `first` counts rows from the start of the whole tensor.
};

// In expert order, groups in order within an expert: one expert's matrix stays in cache while it is
// used. body(segment) for each that is not empty; used[g] receives the rows in use of group g.
template <class Body>
void for_each_segment(const GroupedMatmulDesc& d, const int32_t* sizes, const Body& body) {
  for (int64_t e = 0; e < d.experts; ++e) {
    for (int64_t g = 0; g < d.groups; ++g) {
      int64_t before = 0;
      for (int64_t i = 0; i < e; ++i) before += std::max(sizes[g * d.experts + i], 0);
      before = std::min(before, d.slots);
      const int64_t rows = std::clamp<int64_t>(sizes[g * d.experts + e], 0, d.slots - before);
      if (rows > 0) body(Segment{e, g * d.slots + before, rows});
    }
  }
}

}  // namespace

struct GroupedMatmul::Impl {
  GroupedMatmulDesc desc;
  DType compute = DType::kF32;
  bool widened = false;
  int64_t cols = 0, depth = 0;    // Of one row's product (kForward, kGradInput).
  std::vector<DnnlMatmul> tiles;  // [0]: kTile rows; [1]: any number of rows.
  std::vector<DnnlMatmul> grads;  // One for each cut of d: [d_i, h] from any number of rows.
  size_t primitive_bytes = 0;

  int64_t rows() const { return desc.groups * desc.slots; }
  int64_t in0_elements() const {
    return rows() * (desc.kind == GroupedKind::kGradInput ? desc.h : desc.d);
  }
  int64_t in1_elements() const {
    return desc.kind == GroupedKind::kGradWeight ? rows() * desc.h : desc.experts * desc.d * desc.h;
  }
  int64_t out_elements() const {
    if (desc.kind == GroupedKind::kGradWeight) return desc.experts * desc.d * desc.h;
    return rows() * (desc.kind == GroupedKind::kForward ? desc.h : desc.d);
  }
  bool narrowed() const { return widened && desc.out == DType::kBF16; }
  // Both operands of the weight gradient are copied into expert order: one product for each expert
  // instead of one for each expert and group, whose sums would pass through memory each time.
  bool packed() const { return desc.kind == GroupedKind::kGradWeight; }

  void run_rows(Parallel& par, const std::byte* x, const std::byte* w, const int32_t* sizes,
                std::byte* y, DType out, std::byte* scratch) const;
  void run_grad(Parallel& par, const std::byte* x, const std::byte* dy, const int32_t* sizes,
                std::byte* dw, DType out, std::byte* scratch) const;
  void tile(Parallel& par, const Segment& s, int64_t from, int64_t rows, const std::byte* x,
            const std::byte* w, std::byte* y, DType out, void* own) const;
};

namespace {

constexpr int64_t kGradCuts =
    4;  // Of d, for the weight gradient; fixed, so that bits do not depend on threads.

int64_t grad_cut(int64_t d, int64_t c) { return d * c / kGradCuts / 16 * 16; }
int64_t grad_begin(int64_t d, int64_t c) { return c == kGradCuts ? d : grad_cut(d, c); }

}  // namespace

GroupedMatmul::GroupedMatmul(const GroupedMatmulDesc& desc, KernelIsa isa) {
  const bool same = desc.in0 == desc.in1 &&
                    (desc.in0 == desc.out || (desc.in0 == DType::kBF16 && desc.out == DType::kF32));
  GW_REQUIRE(
      same && is_float(desc.in0),
      "grouped_dot: no kernel for these types: expected f32, bf16 or f64 on both sides, got ",
      to_string(desc.in0), " x ", to_string(desc.in1), " -> ", to_string(desc.out));
  auto impl = std::make_unique<Impl>();
  impl->desc = desc;
  impl->widened = desc.in0 == DType::kBF16 && !has_native_bf16(isa);
  impl->compute = impl->widened ? DType::kF32 : desc.in0;
  const DType out = impl->widened ? DType::kF32 : desc.out;
  const bool forward = desc.kind == GroupedKind::kForward;
  impl->cols = forward ? desc.h : desc.d;
  impl->depth = forward ? desc.d : desc.h;
  if (impl->compute != DType::kF64 && desc.d > 0 && desc.h > 0 && impl->rows() > 0) {
    if (impl->packed()) {
      for (int64_t c = 0; c < kGradCuts; ++c) {
        const int64_t m = grad_begin(desc.d, c + 1) - grad_begin(desc.d, c);
        impl->grads.emplace_back(DnnlMatmulDesc{.in = impl->compute,
                                                .out = out,
                                                .m = std::max<int64_t>(m, 1),
                                                .n = desc.h,
                                                .k = kRunTime,
                                                .transpose_a = true,
                                                .lda = desc.d,
                                                .ldb = desc.h,
                                                .ldc = desc.h});
      }
    } else {
      DnnlMatmulDesc one{.in = impl->compute,
                         .out = out,
                         .m = kTile,
                         .n = impl->cols,
                         .k = impl->depth,
                         .transpose_b = !forward,
                         .lda = impl->depth,
                         .ldb = desc.h,
                         .ldc = impl->cols};
      impl->tiles.emplace_back(one);
      one.m = kRunTime;
      impl->tiles.emplace_back(one);
    }
  }
  for (const auto* list : {&impl->tiles, &impl->grads}) {
    for (const DnnlMatmul& p : *list)
      impl->primitive_bytes = std::max(impl->primitive_bytes, aligned(p.scratch_bytes()));
  }
  impl_ = std::move(impl);
}

GroupedMatmul::~GroupedMatmul() = default;
GroupedMatmul::GroupedMatmul(GroupedMatmul&&) noexcept = default;
GroupedMatmul& GroupedMatmul::operator=(GroupedMatmul&&) noexcept = default;

// Layout: the primitives' scratch of each thread; widened operands and result; operands in expert
// order.
size_t GroupedMatmul::scratch_bytes(int threads) const {
  const Impl& s = *impl_;
  size_t bytes = static_cast<size_t>(threads) * s.primitive_bytes;
  if (s.widened)
    bytes += aligned(4 * static_cast<size_t>(s.in0_elements())) +
             aligned(4 * static_cast<size_t>(s.in1_elements()));
  if (s.narrowed()) bytes += aligned(4 * static_cast<size_t>(s.out_elements()));
  if (s.packed())
    bytes += aligned(size_of(s.compute) * static_cast<size_t>(s.rows() * (s.desc.d + s.desc.h)));
  return bytes;
}

void GroupedMatmul::Impl::tile(Parallel& par, const Segment& s, int64_t from, int64_t count,
                               const std::byte* x, const std::byte* w, std::byte* y, DType out,
                               void* own) const {
  const std::byte* at = x + (s.first + from) * depth * bytes_of(compute);
  const std::byte* matrix = w + s.expert * desc.d * desc.h * bytes_of(compute);
  std::byte* to = y + (s.first + from) * cols * bytes_of(out);
  if (compute != DType::kF64) return tiles[count == kTile ? 0 : 1].run(count, at, matrix, to, own);
  const bool forward = desc.kind == GroupedKind::kForward;
  const simd::DoubleGemm g{.a = reinterpret_cast<const double*>(at),
                           .a_row = depth,
                           .a_col = 1,
                           .b = reinterpret_cast<const double*>(matrix),
                           .b_row = forward ? desc.h : 1,
                           .b_col = forward ? 1 : desc.h,
                           .c = reinterpret_cast<double*>(to),
                           .c_row = cols,
                           .n = cols,
                           .k = depth,
                           .alpha = 1,
                           .accumulate = false};
  par.simd().double_gemm_rows(g, 0, count);
}

void GroupedMatmul::Impl::run_rows(Parallel& par, const std::byte* x, const std::byte* w,
                                   const int32_t* sizes, std::byte* y, DType out,
                                   std::byte* scratch) const {
  for (int64_t g = 0; g < desc.groups; ++g) {  // Rows of no expert.
    int64_t used = 0;
    for (int64_t e = 0; e < desc.experts; ++e) used += std::max(sizes[g * desc.experts + e], 0);
    used = std::min(used, desc.slots);
    std::memset(y + (g * desc.slots + used) * cols * bytes_of(out), 0,
                static_cast<size_t>((desc.slots - used) * cols * bytes_of(out)));
  }
  if (desc.d == 0 || desc.h == 0) {
    std::memset(y, 0, static_cast<size_t>(rows() * cols * bytes_of(out)));
    return;
  }
  // Tiles begin at the starts of segments, whatever the number of threads; each thread takes its
  // share of all tiles.
  int64_t total = 0;
  for_each_segment(desc, sizes, [&](const Segment& s) { total += (s.rows + kTile - 1) / kTile; });
  const int64_t parts = std::min<int64_t>(par.threads(), total);
  par.for_each_chunk(parts, [&](int64_t p) {
    const int64_t begin = total * p / parts, end = total * (p + 1) / parts;
    void* own = scratch + static_cast<size_t>(p) * primitive_bytes;
    int64_t at = 0;
    for_each_segment(desc, sizes, [&](const Segment& s) {
      for (int64_t from = 0; from < s.rows; from += kTile, ++at) {
        if (at >= begin && at < end)
          tile(par, s, from, std::min(kTile, s.rows - from), x, w, y, out, own);
      }
    });
  });
}

void GroupedMatmul::Impl::run_grad(Parallel& par, const std::byte* x, const std::byte* dy,
                                   const int32_t* sizes, std::byte* dw, DType out,
                                   std::byte* scratch) const {
  std::byte* px = scratch + static_cast<size_t>(par.threads()) * primitive_bytes;
  std::byte* pdy = px + rows() * desc.d * bytes_of(compute);
  const int64_t x_row = desc.d * bytes_of(compute), dy_row = desc.h * bytes_of(compute);
  std::vector<Segment> experts;  // Of the packed rows.
  std::vector<Segment> pieces;   // Where they come from; in the same order.
  int64_t total = 0;
  for_each_segment(desc, sizes, [&](const Segment& s) {
    if (experts.empty() || experts.back().expert != s.expert)
      experts.push_back({s.expert, total, 0});
    experts.back().rows += s.rows;
    total += s.rows;
    pieces.push_back(s);
  });
  if (desc.groups == 1) {
    px = const_cast<std::byte*>(x);
    pdy = const_cast<std::byte*>(dy);
  } else {
    par.for_each_range(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
      int64_t to = 0;
      for (int64_t i = 0; i < end; to += pieces[static_cast<size_t>(i++)].rows) {
        const Segment& s = pieces[static_cast<size_t>(i)];
        if (i < begin) continue;
        std::memcpy(px + to * x_row, x + s.first * x_row, static_cast<size_t>(s.rows * x_row));
        std::memcpy(pdy + to * dy_row, dy + s.first * dy_row, static_cast<size_t>(s.rows * dy_row));
      }
    });
  }
  const int64_t matrix = desc.d * desc.h * bytes_of(out);
  std::vector<const Segment*> of(static_cast<size_t>(desc.experts), nullptr);
  for (const Segment& s : experts) of[static_cast<size_t>(s.expert)] = &s;
  // A cut of d for all experts is the unit: experts differ in size, cuts do not.
  const int64_t parts = std::min<int64_t>(par.threads(), kGradCuts);
  par.for_each_chunk(parts, [&](int64_t p) {
    void* own = scratch + static_cast<size_t>(p) * primitive_bytes;
    for (int64_t c = kGradCuts * p / parts; c < kGradCuts * (p + 1) / parts; ++c) {
      const int64_t d0 = grad_begin(desc.d, c), d1 = grad_begin(desc.d, c + 1);
      if (d0 == d1) continue;
      for (int64_t e = 0; e < desc.experts; ++e) {
        std::byte* to = dw + e * matrix + d0 * desc.h * bytes_of(out);
        const Segment* s = of[static_cast<size_t>(e)];
        if (s == nullptr) {
          std::memset(to, 0, static_cast<size_t>((d1 - d0) * desc.h * bytes_of(out)));
          continue;
        }
        const std::byte* a = px + s->first * x_row + d0 * bytes_of(compute);
        const std::byte* b = pdy + s->first * dy_row;
        if (compute != DType::kF64) {
          grads[static_cast<size_t>(c)].run(s->rows, a, b, to, own);
          continue;
        }
        const simd::DoubleGemm g{.a = reinterpret_cast<const double*>(a),
                                 .a_row = 1,
                                 .a_col = desc.d,
                                 .b = reinterpret_cast<const double*>(b),
                                 .b_row = desc.h,
                                 .b_col = 1,
                                 .c = reinterpret_cast<double*>(to),
                                 .c_row = desc.h,
                                 .n = desc.h,
                                 .k = s->rows,
                                 .alpha = 1,
                                 .accumulate = false};
        par.simd().double_gemm_rows(g, 0, d1 - d0);
      }
    }
  });
}

void GroupedMatmul::run(Parallel& par, const void* in0, const void* in1, const int32_t* sizes,
                        void* out, void* scratch) const {
  const Impl& s = *impl_;
  if (s.out_elements() == 0) return;
  const auto* x = static_cast<const std::byte*>(in0);
  const auto* w = static_cast<const std::byte*>(in1);
  auto* y = static_cast<std::byte*>(out);
  auto* free = static_cast<std::byte*>(scratch);
  DType type = s.desc.out;
  if (s.widened) {
    auto* wide_x = reinterpret_cast<float*>(free);
    free += aligned(4 * static_cast<size_t>(s.in0_elements()));
    auto* wide_w = reinterpret_cast<float*>(free);
    free += aligned(4 * static_cast<size_t>(s.in1_elements()));
    convert(par, DType::kBF16, DType::kF32, in0, wide_x, s.in0_elements());
    convert(par, DType::kBF16, DType::kF32, in1, wide_w, s.in1_elements());
    x = reinterpret_cast<const std::byte*>(wide_x);
    w = reinterpret_cast<const std::byte*>(wide_w);
  }
  if (s.narrowed()) {
    y = free;
    type = DType::kF32;
    free += aligned(4 * static_cast<size_t>(s.out_elements()));
  }
  if (s.packed()) {
    s.run_grad(par, x, w, sizes, y, type, free);
  } else {
    s.run_rows(par, x, w, sizes, y, type, free);
  }
  if (s.narrowed()) convert(par, DType::kF32, DType::kBF16, y, out, s.out_elements());
}

}  // namespace gangway
