// Layout of a chain's elements in a tensor that is larger, transposed or broadcast: a plain struct
// that the host and the kernels share. Neighbouring dimensions that are contiguous are joined; the
// last one counts strips.
#pragma once

#ifndef __CUDACC_RTC__
#include <bit>
#include <cstdint>
#endif

namespace gangway::cuda {

template <int kRank>
struct RowView {
  int64_t sizes[kRank] = {};    // Sizes of the chain.
  int64_t strides[kRank] = {};  // In the tensor, in elements; 0: all along it are one.
  // For division by sizes: a quotient is a product and a shift (divide(), row_reads.h).
  uint32_t multipliers[kRank] = {}, shifts[kRank] = {};
};

// Numbers divided in this way must be less than this.
constexpr int64_t kDividedMax = int64_t{1} << 31;

#ifndef __CUDACC_RTC__
// Granlund and Montgomery, "Division by invariant integers using multiplication", section 4:
// ceil(2^(32 + s) / d) is 2^32 and `multiplier`, for 2^s >= d.
struct Divisor {
  uint32_t multiplier = 0, shift = 0;
};
inline Divisor divisor_of(int64_t size) {
  const auto d = static_cast<uint64_t>(size);
  const auto shift = static_cast<uint32_t>(std::bit_width(d - 1));
  const uint64_t above = (uint64_t{1} << shift) - d;
  return {static_cast<uint32_t>((above << 32) / d + 1), shift};
}
#endif

}  // namespace gangway::cuda
