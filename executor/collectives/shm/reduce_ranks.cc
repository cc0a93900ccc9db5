#include "executor/collectives/shm/reduce_ranks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace gangway {
namespace {

constexpr int64_t kBlock = 2048;

// How an element is held in memory and in a sum.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
  static uint16_t store(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // To nearest even.
  }
};

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));  // Wraps.
    } else {
      return a + b;
    }
  }
};
// A NaN stays.
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

template <class Form, class Combine>
void run(std::span<const std::byte* const> sources, std::byte* out, int64_t elements,
         Combine combine) {
  using Stored = typename Form::Stored;
  typename Form::Sum sum[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    const auto at = [&](const std::byte* data) {
      return reinterpret_cast<const Stored*>(data) + begin;
    };
    const Stored* first = at(sources[0]);
    for (int64_t i = 0; i < n; ++i) sum[i] = Form::load(first[i]);
    for (size_t r = 1; r < sources.size(); ++r) {
      const Stored* next = at(sources[r]);
      for (int64_t i = 0; i < n; ++i) sum[i] = combine(sum[i], Form::load(next[i]));
    }
    auto* to = reinterpret_cast<Stored*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = Form::store(sum[i]);
  }
}

template <class Form>
void choose(Reduction reduction, std::span<const std::byte* const> sources, std::byte* out,
            int64_t elements) {
  switch (reduction) {
    case Reduction::kSum: return run<Form>(sources, out, elements, Add{});
    case Reduction::kMax: return run<Form>(sources, out, elements, Max{});
    case Reduction::kMin: return run<Form>(sources, out, elements, Min{});
  }
}

}  // namespace

void reduce_ranks(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
                  std::byte* out, int64_t elements) {
  switch (dtype) {
    case DType::kF32: return choose<Plain<float>>(reduction, sources, out, elements);
    case DType::kF64: return choose<Plain<double>>(reduction, sources, out, elements);
    case DType::kI32: return choose<Plain<int32_t>>(reduction, sources, out, elements);
    case DType::kBF16: return choose<Bf16>(reduction, sources, out, elements);
    case DType::kBool: return choose<Plain<uint8_t>>(reduction, sources, out, elements);
  }
}

}  // namespace gangway
