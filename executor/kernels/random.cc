#include "executor/kernels/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

uint64_t key_of(const RandomStart& start) {
  return start.key[0] | (static_cast<uint64_t>(start.key[1]) << 32);
}

double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// One block gives four f32 or two f64 elements.
struct UniformBlock {
  static void make(const PhiloxBlock& words, float* y) {
    for (size_t i = 0; i < 4; ++i) y[i] = to_unit_float(words[i]);
  }
  static void make(const PhiloxBlock& words, double* y) {
    for (size_t i = 0; i < 2; ++i) y[i] = unit_double(words[2 * i], words[2 * i + 1]);
  }
};

// Computed in f64 from libm: the same bits on every instruction set, and initialisers run once.
struct NormalBlock {
  template <class T>
  static void pair(double u, double v, T* y) {
    const double radius = std::sqrt(-2 * std::log1p(-u));
    y[0] = static_cast<T>(radius * std::cos(kTwoPi * v));
    y[1] = static_cast<T>(radius * std::sin(kTwoPi * v));
  }
  static void make(const PhiloxBlock& words, float* y) {
    for (size_t i = 0; i < 4; i += 2)
      pair(to_unit_float(words[i]), to_unit_float(words[i + 1]), y + i);
  }
  static void make(const PhiloxBlock& words, double* y) {
    pair(unit_double(words[0], words[1]), unit_double(words[2], words[3]), y);
  }
};

// Elements [first, first + n) of the sequence.
template <class Block, class T, class Put>
void line(uint64_t key, int64_t first, int64_t n, const Put& put) {
  constexpr int64_t kPer = 16 / sizeof(T);
  T values[kPer];
  for (int64_t i = first / kPer; i * kPer < first + n; ++i) {
    Block::make(philox(key, static_cast<uint64_t>(i)), values);
    for (int64_t j = 0; j < kPer; ++j) {
      const int64_t at = i * kPer + j - first;
      if (at >= 0 && at < n) put(at, values[j]);
    }
  }
}

// The number of the first element of row r.
int64_t row_begin(const RandomShape& s, int64_t first, int64_t r) {
  int64_t at = first;
  for (size_t d = s.sizes.size(); d-- > 0; r /= s.sizes[d]) at += r % s.sizes[d] * s.strides[d];
  return at;
}

template <class Block>
void random(Parallel& par, const RandomShape& s, const RandomStart& start, bool round_down,
            void* y) {
  const uint64_t key = key_of(start);
  // Long single rows are cut too: any element can be computed alone.
  constexpr int64_t kPiece = 8192;
  const int64_t pieces = ceil_div(s.cols, kPiece);
  const int64_t rows =
      std::accumulate(s.sizes.begin(), s.sizes.end(), int64_t{1}, std::multiplies<>());
  par.for_each_chunk(rows * pieces, [&](int64_t u) {
    const int64_t r = u / pieces, c = u % pieces * kPiece, n = std::min(kPiece, s.cols - c);
    const int64_t first = row_begin(s, start.first, r) + c, at = r * s.cols + c;
    if (s.dtype == DType::kF64) {
      line<Block, double>(key, first, n,
                          [&](int64_t i, double x) { static_cast<double*>(y)[at + i] = x; });
    } else if (s.dtype == DType::kF32) {
      line<Block, float>(key, first, n,
                         [&](int64_t i, float x) { static_cast<float*>(y)[at + i] = x; });
    } else if (s.dtype == DType::kBF16) {
      auto* out = static_cast<uint16_t*>(y) + at;
      line<Block, float>(key, first, n, [&](int64_t i, float x) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        out[i] = static_cast<uint16_t>(bits >> 16);
        if (!round_down) par.simd().narrow_bf16(&x, out + i, 1);
      });
    }
  });
}

}  // namespace

void random_uniform(Parallel& par, const RandomShape& shape, const RandomStart& start, void* y) {
  random<UniformBlock>(par, shape, start, true, y);
}

void random_normal(Parallel& par, const RandomShape& shape, const RandomStart& start, void* y) {
  random<NormalBlock>(par, shape, start, false, y);
}

}  // namespace gangway
