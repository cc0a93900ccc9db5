#include "executor/kernels/move.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "executor/kernels/fused.h"
#include "executor/kernels/simd/simd.h"

namespace gangway {
namespace {

constexpr int64_t kCopyGrain = 16 * 1024;  // Bytes that a thread should at least move.

struct Dim {
  int64_t size, src, dst;
};

// Dimensions without those of size 1, neighbours that lie behind one another on both sides joined.
std::vector<Dim> joined(const StridedCopy& copy) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < copy.sizes.size(); ++i) {
    const Dim d{copy.sizes[i], copy.src_strides[i], copy.dst_strides[i]};
    if (d.size == 1) continue;
    const bool joins =
        !dims.empty() && dims.back().src == d.src * d.size && dims.back().dst == d.dst * d.size;
    if (joins) {
      dims.back() = {dims.back().size * d.size, d.src, d.dst};
    } else {
      dims.push_back(d);
    }
  }
  return dims;
}

template <class T>
void copy_line(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t n) {
  if (src_stride == 1 && dst_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else if (src_stride == 0 && dst_stride == 1) {
    std::fill_n(dst, n, *src);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// A transpose in tiles of one cache line each way: every line of either side is touched once, so
// that strides of a power of two, whose lines compete for the same few places in the cache, cost
// nothing. src is dense along a, dst along b.
template <class T>
void copy_plane(const T* src, T* dst, Dim a, Dim b) {
  constexpr int64_t kTile = 64 / sizeof(T), kBlock = 4 * kTile;
  T tile[kTile][kTile] = {};
  auto one_tile = [&](int64_t i0, int64_t j0) {
    const int64_t rows = std::min(kTile, a.size - i0), cols = std::min(kTile, b.size - j0);
    for (int64_t j = 0; j < cols; ++j) {
      std::memcpy(tile[j], src + i0 + (j0 + j) * b.src, static_cast<size_t>(rows) * sizeof(T));
    }
    for (int64_t i = 0; i < rows; ++i) {
      T line[kTile];
      for (int64_t j = 0; j < kTile; ++j) line[j] = tile[j][i];
      std::memcpy(dst + (i0 + i) * a.dst + j0, line, static_cast<size_t>(cols) * sizeof(T));
    }
  };
  // Blocks of a few tiles keep the pages of both sides in the translation cache.
  for (int64_t j1 = 0; j1 < b.size; j1 += kBlock) {
    for (int64_t i0 = 0; i0 < a.size; i0 += kTile) {
      for (int64_t j0 = j1; j0 < std::min(b.size, j1 + kBlock); j0 += kTile) one_tile(i0, j0);
    }
  }
}

template <class T>
void copy_typed(Parallel& par, std::vector<Dim> dims, const T* src, T* dst) {
  while (dims.size() < 2) dims.insert(dims.begin(), {1, 0, 0});
  const Dim last = dims.back();
  // The dimension along which the source runs fastest, if that is another one than the last: a
  // transpose.
  size_t fast = dims.size() - 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i].src == 1 && last.src != 1 && last.dst == 1) fast = i;
  }
  const bool plane = fast + 1 < dims.size();
  const Dim across = plane ? dims[fast] : Dim{1, 0, 0};
  std::vector<Dim> loops(dims.begin(), dims.end() - 1);
  if (plane) loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(fast));
  int64_t lines = 1;
  for (const Dim& d : loops) lines *= d.size;

  // A transpose whose other dimensions are few is cut along its own rows as well.
  const int64_t cuts =
      plane && lines < par.threads() ? std::min<int64_t>(across.size, 4 * par.threads()) : 1;
  const int64_t bytes = last.size * across.size * static_cast<int64_t>(sizeof(T)) / cuts;
  par.for_each_range(lines * cuts, std::max<int64_t>(1, kCopyGrain / std::max<int64_t>(bytes, 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t u = begin; u < end; ++u) {
                         int64_t rest = u / cuts, from = 0, to = 0;
                         for (size_t i = loops.size(); i-- > 0;) {
                           const int64_t index = rest % loops[i].size;
                           rest /= loops[i].size;
                           from += index * loops[i].src;
                           to += index * loops[i].dst;
                         }
                         if (!plane) {
                           copy_line(src + from, last.src, dst + to, last.dst, last.size);
                           continue;
                         }
                         const int64_t cut = u % cuts, i0 = across.size * cut / cuts,
                                       i1 = across.size * (cut + 1) / cuts;
                         copy_plane(src + from + i0 * across.src, dst + to + i0 * across.dst,
                                    {i1 - i0, across.src, across.dst}, last);
                       }
                     });
}

template <class T>
void fill_typed(Parallel& par, T value, void* y, int64_t n) {
  par.for_each_range(n, kCopyGrain, [&](int64_t begin, int64_t end) {
    std::fill(static_cast<T*>(y) + begin, static_cast<T*>(y) + end, value);
  });
}

uint16_t bf16_bits(double value) {
  const auto x = static_cast<float>(value);
  uint16_t bits;
  simd::table(KernelIsa::kBase).narrow_bf16(&x, &bits, 1);
  return bits;
}

int32_t i32_of(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<int32_t>(std::clamp(value, -2147483648.0, 2147483647.0));
}

}  // namespace

void strided_copy(Parallel& par, const StridedCopy& copy, const void* src, void* dst) {
  for (int64_t size : copy.sizes) {
    if (size == 0) return;
  }
  const std::vector<Dim> dims = joined(copy);
  auto go = [&](auto element) {
    using T = decltype(element);
    copy_typed(par, dims, static_cast<const T*>(src), static_cast<T*>(dst));
  };
  if (copy.bytes == 1) go(uint8_t{});
  if (copy.bytes == 2) go(uint16_t{});
  if (copy.bytes == 4) go(uint32_t{});
  if (copy.bytes == 8) go(uint64_t{});
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

StridedCopy permute_copy(int64_t bytes, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& permutation) {
  const std::vector<int64_t> strides = dense_strides(sizes);
  StridedCopy copy{.bytes = bytes, .sizes = {}, .src_strides = {}, .dst_strides = {}};
  for (int64_t axis : permutation) {
    copy.sizes.push_back(sizes[static_cast<size_t>(axis)]);
    copy.src_strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  copy.dst_strides = dense_strides(copy.sizes);
  return copy;
}

void fill(Parallel& par, DType dtype, double value, void* y, int64_t n) {
  switch (dtype) {
    case DType::kBool: return fill_typed<uint8_t>(par, value != 0 ? 1 : 0, y, n);
    case DType::kI32: return fill_typed<int32_t>(par, i32_of(value), y, n);
    case DType::kBF16: return fill_typed<uint16_t>(par, bf16_bits(value), y, n);
    case DType::kF32: return fill_typed<float>(par, static_cast<float>(value), y, n);
    case DType::kF64: return fill_typed<double>(par, value, y, n);
  }
}

void iota(Parallel& par, DType dtype, int64_t outer, int64_t axis, int64_t inner, void* y) {
  if (inner == 0) return;
  const auto put = [&](auto value_of) {
    auto* out = static_cast<decltype(value_of(int64_t{0}))*>(y);
    par.for_each_range(outer * axis, std::max<int64_t>(1, kCopyGrain / inner),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t j = begin, i = begin % axis; j < end; ++j) {
                           std::fill_n(out + j * inner, inner, value_of(i));
                           i = i + 1 < axis ? i + 1 : 0;
                         }
                       });
  };
  switch (dtype) {
    case DType::kBool: return put([](int64_t i) { return static_cast<uint8_t>(i != 0 ? 1 : 0); });
    case DType::kI32: return put([](int64_t i) { return static_cast<int32_t>(i); });
    case DType::kBF16: return put([](int64_t i) { return bf16_bits(static_cast<double>(i)); });
    case DType::kF32: return put([](int64_t i) { return static_cast<float>(i); });
    case DType::kF64: return put([](int64_t i) { return static_cast<double>(i); });
  }
}

void convert(Parallel& par, DType from, DType to, const void* x, void* y, int64_t n) {
  const auto bytes = static_cast<int64_t>(size_of(from));
  if (from == to) {
    par.for_each_range(n, kCopyGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<std::byte*>(y) + begin * bytes,
                  static_cast<const std::byte*>(x) + begin * bytes,
                  static_cast<size_t>((end - begin) * bytes));
    });
  } else if (from == DType::kBF16 && to == DType::kF32) {
    par.for_each_range(n, kCopyGrain, [&](int64_t begin, int64_t end) {
      par.simd().widen_bf16(static_cast<const uint16_t*>(x) + begin, static_cast<float*>(y) + begin,
                            end - begin);
    });
  } else if (from == DType::kF32 && to == DType::kBF16) {
    par.for_each_range(n, kCopyGrain, [&](int64_t begin, int64_t end) {
      par.simd().narrow_bf16(static_cast<const float*>(x) + begin,
                             static_cast<uint16_t*>(y) + begin, end - begin);
    });
  } else {
    const Fused chain({.inputs = {{from, FusedInput::kFull}},
                       .code = {{FusedOp::kConvert, to, {0, 0, 0}, 0}},
                       .outputs = {{1, to}}});
    const void* const in[] = {x};
    void* const out[] = {y};
    chain.run(par, 1, n, in, out);
  }
}

void gather_rows(Parallel& par, int64_t element_bytes, const RowsShape& s, const void* table,
                 const int32_t* index, void* out) {
  const int64_t bytes = s.dim * element_bytes;
  if (bytes == 0) return;
  par.for_each_range(s.n, std::max<int64_t>(1, kCopyGrain / bytes),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         auto* to = static_cast<std::byte*>(out) + i * bytes;
                         if (index[i] < 0 || index[i] >= s.rows) {
                           std::memset(to, 0, static_cast<size_t>(bytes));
                           continue;
                         }
                         std::memcpy(to, static_cast<const std::byte*>(table) + index[i] * bytes,
                                     static_cast<size_t>(bytes));
                       }
                     });
}

size_t scatter_add_scratch_bytes(DType dtype, const RowsShape& s) {
  return dtype == DType::kBF16 ? static_cast<size_t>(s.rows * s.dim) * sizeof(float) : 0;
}

void scatter_add_rows(Parallel& par, DType dtype, const RowsShape& s, const int32_t* index,
                      const void* updates, void* out, void* scratch) {
  const bool wide = dtype == DType::kBF16;
  auto* sums = static_cast<std::byte*>(wide ? scratch : out);
  const auto from = static_cast<int64_t>(size_of(dtype)), to = wide ? int64_t{4} : from;
  // Cut along columns: popular rows then burden every thread alike, and each row sums its updates
  // in order.
  par.for_each_range(s.dim, 32, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < s.rows; ++r) {
      std::memset(sums + (r * s.dim + begin) * to, 0, static_cast<size_t>((end - begin) * to));
    }
    for (int64_t i = 0; i < s.n; ++i) {
      if (index[i] < 0 || index[i] >= s.rows) continue;
      par.simd().add_row(dtype, static_cast<const std::byte*>(updates) + (i * s.dim + begin) * from,
                         end - begin, sums + (index[i] * s.dim + begin) * to);
    }
  });
  if (wide) convert(par, DType::kF32, DType::kBF16, sums, out, s.rows * s.dim);
}

}  // namespace gangway
