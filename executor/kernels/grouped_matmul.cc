#include "executor/kernels/grouped_matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

// Not oneDNN: it wants every size when a primitive is built, and experts' rows are known only when
// they run. With run-time sizes it reaches about 80 % of its own speed, and it packs an expert's
// matrix again for every call; here a panel of the matrix is packed once and meets all rows of its
// expert, in all groups.

namespace gangway {
namespace {

using simd::kPanelCols;
using simd::kPanelRows;

// The weight gradient packs kLines lines and sums kCols columns of dw at a time, so that both
// operands and the sums lie in a cache of the second level.
constexpr int64_t kLines = 128, kCols = 4 * kPanelCols;

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
int64_t panels_in(int64_t n) { return ceil_div(n, kPanelCols); }
int64_t even(int64_t n) { return align_up(n, 2); }

int64_t size_of_expert(const GroupedMatmulDesc& d, const int32_t* sizes, int64_t group,
                       int64_t expert) {
  return d.capacity > 0 ? d.capacity : sizes[group * d.experts + expert];
}

// The rows of one expert in one group, cut to the buffer.
struct Segment {
  int64_t first, rows;  // `first` counts rows from the start of the whole tensor.
};

// The segments of all experts, each expert's in group order.
struct Segments {
  std::vector<Segment> all;
  std::vector<size_t> of;  // [experts + 1]

  Segments(const GroupedMatmulDesc& d, const int32_t* sizes) {
    std::vector<int64_t> used(static_cast<size_t>(d.groups), 0);
    for (int64_t e = 0; e < d.experts; ++e) {
      of.push_back(all.size());
      for (int64_t g = 0; g < d.groups; ++g) {
        int64_t& before = used[static_cast<size_t>(g)];
        const int64_t rows =
            std::clamp<int64_t>(size_of_expert(d, sizes, g, e), 0, d.slots - before);
        if (rows > 0) all.push_back({g * d.slots + before, rows});
        before += rows;
      }
    }
    of.push_back(all.size());
  }
  template <class Body>
  void for_each(int64_t expert, const Body& body) const {
    for (size_t i = of[static_cast<size_t>(expert)]; i < of[static_cast<size_t>(expert) + 1]; ++i)
      body(all[i]);
  }
};

}  // namespace

struct GroupedMatmul::Impl {
  GroupedMatmulDesc desc;
  bool native = false;
  int64_t cols = 0, depth = 0;  // Sizes of one row's product (kForward, kGradInput).

  bool weight() const { return desc.kind == GroupedKind::kGradWeight; }
  bool pairs() const { return desc.in0 == DType::kBF16; }
  int64_t lines(int64_t k) const { return pairs() ? even(k) / 2 : k; }  // Lines of a panel.
  int64_t line_bytes() const { return kPanelCols * (desc.in0 == DType::kF64 ? 8 : 4); }
  int64_t panel_bytes() const { return lines(depth) * line_bytes(); }
  // Columns whose panels are packed together: as many as leave room for rows in the cache.
  int64_t strip() const {
    constexpr int64_t kRoom = 256 * 1024;
    return std::clamp<int64_t>(kRoom / std::max<int64_t>(panel_bytes(), 1), 1, 4) * kPanelCols;
  }
  DType sum() const { return desc.in0 == DType::kF64 ? DType::kF64 : DType::kF32; }
  int64_t copied_bytes() const {  // For rows whose last pair would reach into the next row.
    return pairs() && depth % 2 != 0 ? kPanelRows * even(depth) * 2 : 0;
  }
  int64_t thread_bytes() const {
    const int64_t sums = kCols * kCols * bytes_of(sum());
    const int64_t bytes = weight() ? 8 * kLines * line_bytes() + sums
                                   : strip() / kPanelCols * panel_bytes() + copied_bytes();
    return align_up(bytes, 64);
  }

  void run_rows(Parallel& par, const std::byte* x, const std::byte* w, const int32_t* sizes,
                std::byte* y, std::byte* scratch) const;
  void tile(Parallel& par, const std::byte* x, std::byte* packed, int64_t row, int64_t rows,
            int64_t col, std::byte* y) const;
  void run_weight(Parallel& par, const std::byte* x, const std::byte* dy, const int32_t* sizes,
                  std::byte* dw, std::byte* scratch) const;
  void weight_block(Parallel& par, const Segments& segments, int64_t expert, int64_t i0, int64_t i1,
                    int64_t j0, const std::byte* x, const std::byte* dy, std::byte* dw,
                    std::byte* scratch) const;
};

GroupedMatmul::GroupedMatmul(const GroupedMatmulDesc& desc, KernelIsa isa) {
  const bool same = desc.in0 == desc.in1 &&
                    (desc.in0 == desc.out || (desc.in0 == DType::kBF16 && desc.out == DType::kF32));
  GW_REQUIRE(
      same && is_float(desc.in0),
      "grouped_dot: no kernel for these types: expected f32, bf16 or f64 on both sides, got ",
      to_string(desc.in0), " x ", to_string(desc.in1), " -> ", to_string(desc.out));
  auto impl = std::make_unique<Impl>();
  impl->desc = desc;
  impl->native = has_native_bf16(isa);
  const bool forward = desc.kind == GroupedKind::kForward;
  impl->cols = forward ? desc.h : desc.d;
  impl->depth = forward ? desc.d : desc.h;
  impl_ = std::move(impl);
}

GroupedMatmul::~GroupedMatmul() = default;
GroupedMatmul::GroupedMatmul(GroupedMatmul&&) noexcept = default;
GroupedMatmul& GroupedMatmul::operator=(GroupedMatmul&&) noexcept = default;

// Each thread has the panels of a strip and rows with even ends; for the weight gradient panels of
// dy, panels of x, and sums.
size_t GroupedMatmul::scratch_bytes(int threads) const {
  return static_cast<size_t>(threads * impl_->thread_bytes());
}

void GroupedMatmul::Impl::tile(Parallel& par, const std::byte* x, std::byte* packed, int64_t row,
                               int64_t rows, int64_t col, std::byte* y) const {
  const std::byte* a = x + row * depth * bytes_of(desc.in0);
  int64_t stride = depth;
  if (copied_bytes() > 0) {
    std::byte* copied = packed + strip() / kPanelCols * panel_bytes();
    const int64_t bytes = depth * 2;
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(copied + r * (bytes + 2), a + r * bytes, static_cast<size_t>(bytes));
      std::memset(copied + r * (bytes + 2) + bytes, 0, 2);
    }
    a = copied;
    stride = even(depth);
  }
  for (int64_t j = col; j < std::min(cols, col + strip()); j += kPanelCols) {
    par.simd().panel_product({.in = desc.in0,
                              .out = desc.out,
                              .native = native,
                              .a = a,
                              .a_row = pairs() ? stride / 2 : stride,
                              .a_col = 1,
                              .panel = packed + (j - col) / kPanelCols * panel_bytes(),
                              .m = rows,
                              .n = std::min(kPanelCols, cols - j),
                              .k = lines(depth),
                              .c = y + (row * cols + j) * bytes_of(desc.out),
                              .ldc = cols,
                              .accumulate = false});
  }
}

void GroupedMatmul::Impl::run_rows(Parallel& par, const std::byte* x, const std::byte* w,
                                   const int32_t* sizes, std::byte* y, std::byte* scratch) const {
  const Segments segments(desc, sizes);
  for (int64_t g = 0; g < desc.groups; ++g) {  // Rows of no expert.
    int64_t used = 0;
    for (int64_t e = 0; e < desc.experts; ++e)
      used += std::max<int64_t>(size_of_expert(desc, sizes, g, e), 0);
    used = std::min(used, desc.slots);
    std::memset(y + (g * desc.slots + used) * cols * bytes_of(desc.out), 0,
                static_cast<size_t>((desc.slots - used) * cols * bytes_of(desc.out)));
  }
  // The unit is a tile of rows against a strip of columns; units of one strip follow one another. A
  // thread takes its share of all, wherever that cuts: an element's sum does not depend on it.
  std::vector<int64_t> tiles(static_cast<size_t>(desc.experts), 0);
  const int64_t across = ceil_div(cols, strip());
  int64_t total = 0;
  for (int64_t e = 0; e < desc.experts; ++e) {
    int64_t& count = tiles[static_cast<size_t>(e)];
    segments.for_each(e, [&](Segment s) { count += ceil_div(s.rows, kPanelRows); });
    total += count * across;
  }
  const bool forward = desc.kind == GroupedKind::kForward;
  const int64_t parts = std::min<int64_t>(par.threads(), total);
  par.for_each_chunk(parts, [&](int64_t p) {
    const int64_t begin = total * p / parts, end = total * (p + 1) / parts;
    std::byte* packed = scratch + p * thread_bytes();
    int64_t at = 0;
    for (int64_t unit = 0; unit < desc.experts * across; ++unit) {
      const int64_t e = unit / across, col = unit % across * strip();
      const int64_t next = at + tiles[static_cast<size_t>(e)];
      if (next <= begin || at >= end || at == next) {
        at = next;
        continue;
      }
      const std::byte* matrix = w + e * desc.d * desc.h * bytes_of(desc.in0);
      par.simd().pack_panels({.dtype = desc.in0,
                              .x = matrix + col * (forward ? 1 : desc.h) * bytes_of(desc.in0),
                              .row = forward ? desc.h : 1,
                              .col = forward ? 1 : desc.h,
                              .rows = depth,
                              .cols = std::min(strip(), cols - col),
                              .panel = packed,
                              .next = lines(depth) * kPanelCols});
      segments.for_each(e, [&](Segment s) {
        for (int64_t from = 0; from < s.rows; from += kPanelRows, ++at) {
          if (at < begin || at >= end) continue;
          tile(par, x, packed, s.first + from, std::min(kPanelRows, s.rows - from), col, y);
        }
      });
    }
  });
}

// dw[expert][i0 to i1, j0 to at most j0 + kCols): at most kCols rows. Rows of x and dy are packed
// until kLines are full, whatever segments they come from; a segment of an odd number of rows ends
// in a pair with a zero.
void GroupedMatmul::Impl::weight_block(Parallel& par, const Segments& segments, int64_t expert,
                                       int64_t i0, int64_t i1, int64_t j0, const std::byte* x,
                                       const std::byte* dy, std::byte* dw,
                                       std::byte* scratch) const {
  const int64_t width = std::min(kCols, desc.h - j0), next = kLines * line_bytes();
  std::byte *pdy = scratch, *px = pdy + 4 * next, *sums = px + 4 * next;
  int64_t filled = 0;
  bool first = true;
  auto pack = [&](const std::byte* from, int64_t stride, int64_t row, int64_t rows, int64_t begin,
                  int64_t end, std::byte* to) {
    par.simd().pack_panels({.dtype = desc.in0,
                            .x = from + (row * stride + begin) * bytes_of(desc.in0),
                            .row = stride,
                            .col = 1,
                            .rows = rows,
                            .cols = end - begin,
                            .panel = to + filled * line_bytes(),
                            .next = kLines * kPanelCols});
  };
  auto multiply = [&] {
    for (int64_t i = 0; i < panels_in(i1 - i0); ++i) {
      for (int64_t j = 0; j < panels_in(width); ++j) {
        par.simd().panel_product({.in = desc.in0,
                                  .out = sum(),
                                  .native = native,
                                  .a = px + i * next,
                                  .a_row = 1,
                                  .a_col = kPanelCols,
                                  .panel = pdy + j * next,
                                  .m = std::min(kPanelCols, i1 - i0 - i * kPanelCols),
                                  .n = kPanelCols,
                                  .k = filled,
                                  .c = sums + (i * kCols + j) * kPanelCols * bytes_of(sum()),
                                  .ldc = kCols,
                                  .accumulate = !first});
      }
    }
    first = false;
    filled = 0;
  };
  segments.for_each(expert, [&](Segment s) {
    for (int64_t from = 0, rows = 0; from < s.rows; from += rows) {
      rows = std::min(s.rows - from, (kLines - filled) * (pairs() ? 2 : 1));
      pack(dy, desc.h, s.first + from, rows, j0, j0 + width, pdy);
      pack(x, desc.d, s.first + from, rows, i0, i1, px);
      filled += lines(rows);
      if (filled == kLines) multiply();
    }
  });
  if (filled > 0) multiply();
  for (int64_t i = i0; i < i1; ++i) {
    std::byte* to = dw + ((expert * desc.d + i) * desc.h + j0) * bytes_of(desc.out);
    const std::byte* row = sums + (i - i0) * kCols * bytes_of(sum());
    if (first) {  // An expert without rows.
      std::memset(to, 0, static_cast<size_t>(width * bytes_of(desc.out)));
    } else if (desc.out == DType::kBF16) {
      par.simd().narrow_bf16(reinterpret_cast<const float*>(row), to, width);
    } else {
      std::memcpy(to, row, static_cast<size_t>(width * bytes_of(desc.out)));
    }
  }
}

void GroupedMatmul::Impl::run_weight(Parallel& par, const std::byte* x, const std::byte* dy,
                                     const int32_t* sizes, std::byte* dw,
                                     std::byte* scratch) const {
  const Segments segments(desc, sizes);
  // The unit is kPanelCols rows of dw by kCols columns; a thread takes a share of all units, each
  // weighed by its expert's rows, and does its neighbouring ones of the same columns together.
  const int64_t across = ceil_div(desc.h, kCols), down = panels_in(desc.d);
  std::vector<int64_t> rows(static_cast<size_t>(desc.experts), 1);  // Zeros cost something too.
  int64_t total = 0;
  for (int64_t e = 0; e < desc.experts; ++e) {
    segments.for_each(e, [&](Segment s) { rows[static_cast<size_t>(e)] += s.rows; });
    total += rows[static_cast<size_t>(e)] * across * down;
  }
  const int64_t parts = std::min<int64_t>(par.threads(), desc.experts * across * down);
  par.for_each_chunk(parts, [&](int64_t p) {
    const int64_t begin = total * p / parts, end = total * (p + 1) / parts;
    int64_t at = 0;
    for (int64_t e = 0; e < desc.experts; ++e) {
      for (int64_t j = 0; j < across; ++j) {
        auto done = [&](int64_t i0, int64_t i1) {
          if (i0 < i1)
            weight_block(par, segments, e, i0 * kPanelCols, std::min(desc.d, i1 * kPanelCols),
                         j * kCols, x, dy, dw, scratch + p * thread_bytes());
        };
        int64_t i0 = 0;
        for (int64_t i = 0; i < down; ++i, at += rows[static_cast<size_t>(e)]) {
          if (at < begin || at >= end || i - i0 == kCols / kPanelCols) {
            done(i0, i);
            i0 = at < begin || at >= end ? i + 1 : i;
          }
        }
        done(i0, down);
      }
    }
  });
}

void GroupedMatmul::run(Parallel& par, const void* in0, const void* in1, const int32_t* sizes,
                        void* out, void* scratch) const {
  const Impl& s = *impl_;
  const auto* a = static_cast<const std::byte*>(in0);
  const auto* b = static_cast<const std::byte*>(in1);
  auto* c = static_cast<std::byte*>(out);
  auto* free = static_cast<std::byte*>(scratch);
  s.weight() ? s.run_weight(par, a, b, sizes, c, free) : s.run_rows(par, a, b, sizes, c, free);
}

}  // namespace gangway
