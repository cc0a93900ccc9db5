#include "executor/kernels/reduce.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

// Elements of one piece of an axis. A piece fits the second-level cache in every dtype.
constexpr int64_t kPieceElements = 16384;
constexpr int64_t kSumPiece = 1 << 16;

size_t compute_bytes(DType dtype) { return dtype == DType::kF64 ? 8 : 4; }
DType compute_type(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

int64_t piece_length(const AxisShape& s) {
  return std::max<int64_t>(1, kPieceElements / std::max<int64_t>(s.inner, 1));
}
int64_t piece_count(const AxisShape& s) {
  return std::max<int64_t>(1, ceil_div(s.axis, piece_length(s)));
}

const std::byte* at(const void* x, int64_t index, DType dtype) {
  return static_cast<const std::byte*>(x) + index * static_cast<int64_t>(size_of(dtype));
}

template <class T, class Load>
void argmax(Parallel& par, const AxisShape& s, const T* x, int32_t* y, const Load& load) {
  par.for_each_range(s.outer * s.inner, 64, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const T* column = x + j / s.inner * s.axis * s.inner + j % s.inner;
      int32_t best = 0;
      for (int64_t a = 1; a < s.axis; ++a) {
        const auto top = load(column[best * s.inner]), here = load(column[a * s.inner]);
        if (top != top) break;
        if (here > top || here != here) best = static_cast<int32_t>(a);
      }
      y[j] = best;
    }
  });
}

float widen(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

void argmax(Parallel& par, DType dtype, const AxisShape& s, const void* x, int32_t* y) {
  auto same = [](auto v) { return v; };
  if (dtype == DType::kF32) return argmax(par, s, static_cast<const float*>(x), y, same);
  if (dtype == DType::kF64) return argmax(par, s, static_cast<const double*>(x), y, same);
  if (dtype == DType::kI32) return argmax(par, s, static_cast<const int32_t*>(x), y, same);
  argmax(par, s, static_cast<const uint16_t*>(x), y, widen);
}

// Sums of f32 and bf16 are f64: each element of the result has the digits of a sum of its own,
// however many were added before it.
template <class T, class Sum>
void cumsum_typed(Parallel& par, const AxisShape& s, const T* x, T* y) {
  par.for_each_range(s.outer * s.inner, 16, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const int64_t first = j / s.inner * s.axis * s.inner + j % s.inner;
      Sum sum = 0;
      for (int64_t a = 0; a < s.axis; ++a) {
        sum += static_cast<Sum>(x[first + a * s.inner]);
        y[first + a * s.inner] = static_cast<T>(sum);
      }
    }
  });
}

void cumsum_bf16(Parallel& par, const AxisShape& s, const uint16_t* x, uint16_t* y) {
  par.for_each_range(s.outer * s.inner, 16, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const int64_t first = j / s.inner * s.axis * s.inner + j % s.inner;
      double sum = 0;
      for (int64_t a = 0; a < s.axis; ++a) {
        sum += widen(x[first + a * s.inner]);
        const auto rounded = static_cast<float>(sum);
        par.simd().narrow_bf16(&rounded, y + first + a * s.inner, 1);
      }
    }
  });
}

}  // namespace

// partials[outer, pieces, inner] of the compute type; a single piece of a type that is its own
// compute type writes straight to the result.
size_t reduce_scratch_bytes(ReduceOp op, DType dtype, const AxisShape& s) {
  if (op == ReduceOp::kArgmax || (piece_count(s) == 1 && dtype != DType::kBF16)) return 0;
  return static_cast<size_t>(s.outer * piece_count(s) * s.inner) * compute_bytes(dtype);
}

void reduce(Parallel& par, ReduceOp op, DType dtype, const AxisShape& s, const void* x, void* y,
            void* scratch) {
  if (s.outer == 0 || s.inner == 0) return;
  if (op == ReduceOp::kArgmax) return argmax(par, dtype, s, x, static_cast<int32_t*>(y));
  const simd::Table& simd = par.simd();
  const int64_t length = piece_length(s), pieces = piece_count(s);
  const bool direct = reduce_scratch_bytes(op, dtype, s) == 0;
  const DType type = compute_type(dtype);
  auto* partials = static_cast<std::byte*>(direct ? y : scratch);
  const int64_t step = s.inner * static_cast<int64_t>(size_of(type));  // Bytes of one partial.

  par.for_each_chunk(s.outer * pieces, [&](int64_t u) {
    const int64_t first = u % pieces * length, count = std::min(length, s.axis - first);
    simd.reduce_piece(op, dtype, at(x, (u / pieces * s.axis + first) * s.inner, dtype),
                      std::max<int64_t>(count, 0), s.inner, partials + u * step);
  });
  if (direct) return;
  par.for_each_range(
      s.outer, std::max<int64_t>(1, 1024 / s.inner), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          std::byte* own = partials + o * pieces * step;
          std::byte* to =
              static_cast<std::byte*>(y) + o * s.inner * static_cast<int64_t>(size_of(dtype));
          if (dtype != DType::kBF16) {
            simd.reduce_piece(op, type, own, pieces, s.inner, to);
            continue;
          }
          // The columns of the first partial are free once all are read: each is reduced into its
          // own place.
          if (pieces > 1) {
            for (int64_t i = 0; i < s.inner; ++i) {
              double all = reinterpret_cast<float*>(own)[i];
              for (int64_t p = 1; p < pieces; ++p) {
                const double next = reinterpret_cast<float*>(own + p * step)[i];
                if (op == ReduceOp::kSum) all += next;
                if (op == ReduceOp::kMax && !(all > next || all != all)) all = next;
                if (op == ReduceOp::kMin && !(all < next || all != all)) all = next;
              }
              reinterpret_cast<float*>(own)[i] = static_cast<float>(all);
            }
          }
          simd.narrow_bf16(reinterpret_cast<float*>(own), to, s.inner);
        }
      });
}

void cumsum(Parallel& par, DType dtype, const AxisShape& s, const void* x, void* y) {
  if (dtype == DType::kF32)
    cumsum_typed<float, double>(par, s, static_cast<const float*>(x), static_cast<float*>(y));
  if (dtype == DType::kF64)
    cumsum_typed<double, double>(par, s, static_cast<const double*>(x), static_cast<double*>(y));
  if (dtype == DType::kI32)
    cumsum_typed<int32_t, uint32_t>(par, s, static_cast<const int32_t*>(x),
                                    static_cast<int32_t*>(y));
  if (dtype == DType::kBF16)
    cumsum_bf16(par, s, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y));
}

size_t sum_squares_scratch_bytes(int64_t n) {
  return static_cast<size_t>(ceil_div(n, kSumPiece)) * sizeof(double);
}

void sum_squares(Parallel& par, DType dtype, const void* x, int64_t n, void* y, void* scratch) {
  auto* sums = static_cast<double*>(scratch);
  const int64_t pieces = ceil_div(n, kSumPiece);
  par.for_each_chunk(pieces, [&](int64_t p) {
    sums[p] = par.simd().sum_squares_piece(dtype, at(x, p * kSumPiece, dtype),
                                           std::min(kSumPiece, n - p * kSumPiece));
  });
  double total = 0;
  for (int64_t p = 0; p < pieces; ++p) total += sums[p];
  if (dtype == DType::kF64) {
    *static_cast<double*>(y) = total;
  } else {
    *static_cast<float*>(y) = static_cast<float>(total);
  }
}

bool all_finite(Parallel& par, DType dtype, const void* x, int64_t n) {
  std::atomic<bool> finite = true;
  par.for_each_range(n, kSumPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && finite.load(std::memory_order_relaxed); i += kSumPiece) {
      if (!par.simd().finite_piece(dtype, at(x, i, dtype), std::min(kSumPiece, end - i))) {
        finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  return finite.load();
}

}  // namespace gangway
