#include "executor/kernels/topk.h"

#include <algorithm>
#include <bit>

#include "runtime/base/align.h"

namespace gangway {
namespace {

// Keys whose unsigned order is the order of topk.h: a NaN of either sign above all, -0 as +0.
uint32_t key_of(uint32_t bits) { return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u; }

struct F32 {
  using Storage = float;
  using Key = uint32_t;
  static Key key(float x) {
    return x != x ? UINT32_MAX : key_of(std::bit_cast<uint32_t>(x == 0 ? 0.0f : x));
  }
};
struct BF16 {
  using Storage = uint16_t;
  using Key = uint32_t;
  static Key key(uint16_t x) {
    return F32::key(std::bit_cast<float>(static_cast<uint32_t>(x) << 16));
  }
};
struct F64 {
  using Storage = double;
  using Key = uint64_t;
  static Key key(double x) {
    const auto bits = std::bit_cast<uint64_t>(x == 0 ? 0.0 : x);
    return x != x ? UINT64_MAX : ((bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63));
  }
};
struct I32 {
  using Storage = int32_t;
  using Key = uint32_t;
  static Key key(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
};

template <class Body>
void with_order(DType dtype, const Body& body) {
  if (dtype == DType::kF32) body(F32{});
  if (dtype == DType::kBF16) body(BF16{});
  if (dtype == DType::kF64) body(F64{});
  if (dtype == DType::kI32) body(I32{});
}

// Insertion into the best so far: k is small, and most elements fail the first comparison.
template <class Order>
void top_k_row(const typename Order::Storage* x, int64_t n, int64_t k,
               typename Order::Storage* values, int32_t* indices) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto key = Order::key(x[i]);
    if (found == k && key <= Order::key(values[k - 1])) continue;
    int64_t at = found < k ? found++ : k - 1;
    for (; at > 0 && key > Order::key(values[at - 1]); --at) {
      values[at] = values[at - 1];
      indices[at] = indices[at - 1];
    }
    values[at] = x[i];
    indices[at] = static_cast<int32_t>(i);
  }
}

template <class Key>
struct Entry {
  Key key;
  int32_t index;
};

// Radix sort by bytes, lowest first; a byte in which all keys agree costs one count and no move.
template <class Order>
void sort_row(const typename Order::Storage* x, int64_t n, int32_t* order,
              Entry<typename Order::Key>* from, Entry<typename Order::Key>* to) {
  for (int64_t i = 0; i < n; ++i) from[i] = {Order::key(x[i]), static_cast<int32_t>(i)};
  for (size_t shift = 0; shift < 8 * sizeof(typename Order::Key); shift += 8) {
    int64_t start[257] = {};
    for (int64_t i = 0; i < n; ++i) ++start[((from[i].key >> shift) & 255) + 1];
    if (n > 0 && start[((from[0].key >> shift) & 255) + 1] == n) continue;
    for (int b = 0; b < 256; ++b) start[b + 1] += start[b];
    for (int64_t i = 0; i < n; ++i) to[start[(from[i].key >> shift) & 255]++] = from[i];
    std::swap(from, to);
  }
  for (int64_t i = 0; i < n; ++i) order[i] = from[i].index;
}

size_t row_bytes(DType dtype, int64_t n) {
  const size_t entry = dtype == DType::kF64 ? sizeof(Entry<uint64_t>) : sizeof(Entry<uint32_t>);
  return align_up(2 * static_cast<size_t>(n) * entry, 64);
}

}  // namespace

void top_k(Parallel& par, DType dtype, int64_t rows, int64_t n, int64_t k, const void* x,
           void* values, int32_t* indices) {
  if (k == 0) return;
  with_order(dtype, [&](auto order) {
    using Order = decltype(order);
    using T = typename Order::Storage;
    par.for_each_range(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        top_k_row<Order>(static_cast<const T*>(x) + r * n, n, k, static_cast<T*>(values) + r * k,
                         indices + r * k);
      }
    });
  });
}

size_t sort_scratch_bytes(DType dtype, int64_t rows, int64_t n, int threads) {
  return static_cast<size_t>(std::min<int64_t>(rows, threads)) * row_bytes(dtype, n);
}

void sort(Parallel& par, DType dtype, int64_t rows, int64_t n, const void* x, void* values,
          int32_t* order, void* scratch) {
  const int64_t parts = std::min<int64_t>(par.threads(), rows);
  with_order(dtype, [&](auto kind) {
    using Order = decltype(kind);
    using T = typename Order::Storage;
    using E = Entry<typename Order::Key>;
    par.for_each_chunk(parts, [&](int64_t p) {
      auto* own = reinterpret_cast<E*>(static_cast<std::byte*>(scratch) +
                                       static_cast<size_t>(p) * row_bytes(dtype, n));
      for (int64_t r = rows * p / parts; r < rows * (p + 1) / parts; ++r) {
        const T* line = static_cast<const T*>(x) + r * n;
        sort_row<Order>(line, n, order + r * n, own, own + n);
        if (values == nullptr) continue;
        for (int64_t i = 0; i < n; ++i) static_cast<T*>(values)[r * n + i] = line[order[r * n + i]];
      }
    });
  });
}

}  // namespace gangway
