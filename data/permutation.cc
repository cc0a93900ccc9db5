#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

// Fewer rounds leave visible structure in small domains.
constexpr int kRounds = 6;

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size),
      key_(key),
      half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  GW_ASSERT(size > 0);
}

uint64_t Permutation::operator()(uint64_t i) const {
  GW_DASSERT(i < size_);
  uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_, right = i & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      PhiloxBlock random = philox(key_, right, round);
      uint64_t next = left ^ ((random[0] | uint64_t{random[1]} << 32) & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= size_);
  return i;
}

}  // namespace gangway
