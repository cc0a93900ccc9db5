// Helpers that all tests of kernels share: typed buffers of exact size, and one check that runs a
// kernel everywhere.
//
// check_everywhere runs it on every instruction set of this machine with 1 and 2 threads, twice
// each, on outputs that hold poison, compares each result with a double-precision one and its bits
// between thread counts and runs. Only for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"
#include "runtime/base/cat.h"

namespace gangway::test {

// Exactly n elements on the heap, 64-byte aligned, so that ASan sees the first byte too many.
class Buffer {
 public:
  template <std::integral Size>
  Buffer(DType dtype, Size n)
      : dtype_(dtype), n_(static_cast<int64_t>(n)), data_(allocate(bytes())) {
    std::memset(data_.get(), 0xFF, bytes());  // NaN in every float type, -1 in i32.
  }
  Buffer(DType dtype, const std::vector<double>& values)
      : Buffer(dtype, static_cast<int64_t>(values.size())) {
    for (int64_t i = 0; i < n_; ++i) set(i, values[static_cast<size_t>(i)]);
  }

  DType dtype() const { return dtype_; }
  int64_t size() const { return n_; }
  size_t bytes() const { return static_cast<size_t>(n_) * size_of(dtype_); }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

  double get(int64_t i) const {
    switch (dtype_) {
      case DType::kBool: return as<uint8_t>()[i];
      case DType::kI32: return as<int32_t>()[i];
      case DType::kF32: return static_cast<double>(as<float>()[i]);
      case DType::kF64: return as<double>()[i];
      case DType::kBF16: break;
    }
    const uint32_t bits = static_cast<uint32_t>(as<uint16_t>()[i]) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return static_cast<double>(x);
  }
  void set(int64_t i, double x) {
    switch (dtype_) {
      case DType::kBool: as<uint8_t>()[i] = x != 0; return;
      case DType::kI32: as<int32_t>()[i] = static_cast<int32_t>(x); return;
      case DType::kF32: as<float>()[i] = static_cast<float>(x); return;
      case DType::kF64: as<double>()[i] = x; return;
      case DType::kBF16: break;
    }
    const auto narrow = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    if (!std::isnan(narrow)) bits += 0x7FFF + ((bits >> 16) & 1);
    as<uint16_t>()[i] = static_cast<uint16_t>(bits >> 16);
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < n_; ++i) all.push_back(get(i));
    return all;
  }
  bool same_bits(const Buffer& other) const {
    return bytes() == other.bytes() && std::memcmp(data(), other.data(), bytes()) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  static std::byte* allocate(size_t bytes) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, bytes == 0 ? 1 : bytes) != 0) std::abort();
    return static_cast<std::byte*>(p);
  }

  DType dtype_;
  int64_t n_;
  std::unique_ptr<std::byte, Free> data_;
};

inline Buffer scratch_of(size_t bytes) { return {DType::kBool, static_cast<int64_t>(bytes)}; }

// Printed with a failure, and taken from GW_TEST_SEED. (tests/support links the whole product; a
// room's tests do not.)
inline std::mt19937 seeded() {
  const char* wish = std::getenv("GW_TEST_SEED");
  const unsigned seed = wish != nullptr ? static_cast<unsigned>(std::atoll(wish)) : 17u;
  std::printf("GW_TEST_SEED=%u\n", seed);
  return std::mt19937(seed);
}

// Values that the dtype holds exactly, in [low, high).
inline std::vector<double> randoms(std::mt19937& rng, DType dtype, int64_t n, double low = -1,
                                   double high = 1) {
  std::uniform_real_distribution<double> uniform(low, high);
  Buffer rounded(dtype, n);
  for (int64_t i = 0; i < n; ++i) rounded.set(i, uniform(rng));
  return rounded.values();
}

inline std::vector<int32_t> random_ints(std::mt19937& rng, int64_t n, int32_t low, int32_t high) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < n; ++i)
    all.push_back(low + static_cast<int32_t>(rng() % static_cast<uint32_t>(high - low)));
  return all;
}

// The relative error of one rounding.
inline double rounding(DType dtype) {
  return dtype == DType::kF64 ? 1e-15
                              : (dtype == DType::kBF16 ? 4e-3 : (dtype == DType::kF32 ? 6e-8 : 0));
}

struct Expected {
  std::vector<double> values;
  double roundings = 8;  // Allowed error, in roundings of the result's dtype; 0: exact.
  double terms = 0;      // The size of the terms where results are small by cancellation.
};

inline void expect_close(const Buffer& got, const Expected& expected, const std::string& where) {
  const std::vector<double>& want = expected.values;
  ASSERT_EQ(static_cast<size_t>(got.size()), want.size()) << where;
  // Errors of sums are relative to the size of their terms: the largest result stands for it.
  double scale = expected.terms;
  for (double w : want) {
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  }
  for (int64_t i = 0; i < got.size(); ++i) {
    const double g = got.get(i), w = want[static_cast<size_t>(i)];
    if (std::isnan(w) || std::isinf(w)) {
      ASSERT_TRUE(std::isnan(w) ? std::isnan(g) : g == w)
          << where << " element " << i << ": got " << g << ", want " << w;
    } else {
      ASSERT_LE(std::abs(g - w),
                expected.roundings * rounding(got.dtype()) * std::max(scale, std::abs(w)))
          << where << " element " << i << " of " << got.size() << ": got " << g << ", want " << w;
    }
  }
}

inline std::vector<KernelIsa> isas() {
  std::vector<KernelIsa> all;
  for (KernelIsa isa : {KernelIsa::kBase, KernelIsa::kAvx2, KernelIsa::kAvx512}) {
    if (isa <= machine_isa()) all.push_back(isa);
  }
  return all;
}

// `run` allocates its own outputs, calls the kernel and returns them.
inline void check_everywhere(const std::string& name,
                             const std::function<std::vector<Buffer>(Parallel&)>& run,
                             const std::vector<Expected>& want) {
  for (KernelIsa isa : isas()) {
    std::vector<Buffer> first;
    for (int threads : {1, 2}) {
      Parallel par(threads, isa);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const std::string where =
            name + " on " + to_string(isa) + " with " + std::to_string(threads) + " threads";
        std::vector<Buffer> got = run(par);
        ASSERT_EQ(got.size(), want.size());
        if (first.empty()) {
          for (size_t i = 0; i < got.size(); ++i) {
            expect_close(got[i], want[i], where + ", output " + std::to_string(i));
            if (::testing::Test::HasFatalFailure()) return;
          }
          first = std::move(got);
          continue;
        }
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(got[i].same_bits(first[i]))
              << where << ": output " << i << " differs from the first run";
        }
      }
    }
  }
}

template <class... Buffers>
std::vector<Buffer> outputs(Buffers&&... buffers) {
  std::vector<Buffer> all;
  (all.push_back(std::move(buffers)), ...);
  return all;
}

inline const std::vector<DType> kFloats = {DType::kF32, DType::kBF16, DType::kF64};

}  // namespace gangway::test
