#include "executor/collectives/hosts/rank_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace gangway {
namespace {

constexpr int64_t kBlock = 1024;

// Types of an element in memory and in a sum.
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
// Keeps a NaN.
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

using Sources = std::span<const std::byte* const>;

// Combines elements [begin, begin + n) of all sources, n at most kBlock. Recurses as deep as the
// tree.
template <class Form, class Combine>
void tree(Sources sources, int64_t begin, int64_t n, typename Form::Sum* out, Combine combine) {
  const auto at = [&](size_t r) {
    return reinterpret_cast<const typename Form::Stored*>(sources[r]) + begin;
  };
  if (sources.size() == 1) {
    const auto* only = at(0);
    for (int64_t i = 0; i < n; ++i) out[i] = Form::load(only[i]);
    return;
  }
  if (sources.size() == 2) {
    const auto *a = at(0), *b = at(1);
    for (int64_t i = 0; i < n; ++i) out[i] = combine(Form::load(a[i]), Form::load(b[i]));
    return;
  }
  const size_t left = std::bit_floor(sources.size() - 1);
  tree<Form>(sources.first(left), begin, n, out, combine);
  if (left + 1 == sources.size()) {
    const auto* last = at(left);
    for (int64_t i = 0; i < n; ++i) out[i] = combine(out[i], Form::load(last[i]));
    return;
  }
  typename Form::Sum right[kBlock];
  tree<Form>(sources.subspan(left), begin, n, right, combine);
  for (int64_t i = 0; i < n; ++i) out[i] = combine(out[i], right[i]);
}

template <class Form>
void round_to(const typename Form::Sum* from, std::byte* out, int64_t begin, int64_t n) {
  auto* to = reinterpret_cast<typename Form::Stored*>(out) + begin;
  for (int64_t i = 0; i < n; ++i) to[i] = Form::store(from[i]);
}

template <class Body>
void for_each_block(int64_t elements, Body body) {
  for (int64_t begin = 0; begin < elements; begin += kBlock)
    body(begin, std::min(kBlock, elements - begin));
}

template <class Body>
void with_combine(Reduction reduction, Body body) {
  switch (reduction) {
    case Reduction::kSum: return body(Add{});
    case Reduction::kMax: return body(Max{});
    case Reduction::kMin: return body(Min{});
  }
}

template <class Body>
void with_form(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32: return body(Plain<float>{});
    case DType::kF64: return body(Plain<double>{});
    case DType::kI32: return body(Plain<int32_t>{});
    case DType::kBF16: return body(Bf16{});
    case DType::kBool: return body(Plain<uint8_t>{});
  }
}

}  // namespace

int64_t partial_bytes_of(DType dtype) {
  return static_cast<int64_t>(dtype == DType::kBF16 ? sizeof(float) : size_of(dtype));
}

void reduce_ranks(DType dtype, Reduction reduction, Sources sources,
                  std::span<std::byte* const> outs, int64_t elements) {
  with_form(dtype, [&]<class Form>(Form) {
    with_combine(reduction, [&](auto combine) {
      typename Form::Sum sum[kBlock];
      for_each_block(elements, [&](int64_t begin, int64_t n) {
        tree<Form>(sources, begin, n, sum, combine);
        for (std::byte* out : outs) round_to<Form>(sum, out, begin, n);
      });
    });
  });
}

void reduce_to_partial(DType dtype, Reduction reduction, Sources sources, std::byte* partial,
                       int64_t elements) {
  with_form(dtype, [&]<class Form>(Form) {
    auto* out = reinterpret_cast<typename Form::Sum*>(partial);
    with_combine(reduction, [&](auto combine) {
      for_each_block(elements, [&](int64_t begin, int64_t n) {
        tree<Form>(sources, begin, n, out + begin, combine);
      });
    });
  });
}

void combine_partials(DType dtype, Reduction reduction, const std::byte* left,
                      const std::byte* right, std::byte* out, int64_t elements) {
  with_form(dtype, [&]<class Form>(Form) {
    using Sum = typename Form::Sum;
    const auto* a = reinterpret_cast<const Sum*>(left);
    const auto* b = reinterpret_cast<const Sum*>(right);
    auto* to = reinterpret_cast<Sum*>(out);
    with_combine(reduction, [&](auto combine) {
      for (int64_t i = 0; i < elements; ++i) to[i] = combine(a[i], b[i]);
    });
  });
}

void reduce_partials(DType dtype, Reduction reduction, Sources partials, std::byte* out,
                     int64_t elements) {
  with_form(dtype, [&]<class Form>(Form) {
    using Sum = typename Form::Sum;
    with_combine(reduction, [&](auto combine) {
      for_each_block(elements, [&](int64_t begin, int64_t n) {
        if constexpr (std::is_same_v<Sum, typename Form::Stored>) {
          tree<Plain<Sum>>(partials, begin, n, reinterpret_cast<Sum*>(out) + begin, combine);
        } else {
          Sum sum[kBlock];
          tree<Plain<Sum>>(partials, begin, n, sum, combine);
          round_to<Form>(sum, out, begin, n);
        }
      });
    });
  });
}

void round_partial(DType dtype, const std::byte* partial, std::byte* out, int64_t elements) {
  with_form(dtype, [&]<class Form>(Form) {
    round_to<Form>(reinterpret_cast<const typename Form::Sum*>(partial), out, 0, elements);
  });
}

}  // namespace gangway
