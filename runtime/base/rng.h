// Randomness: the counter-based generator Philox4x32-10, and Rng, a seeded stream drawn from it.
//
// Counter-based: the n-th block is a pure function of (key, n), so any device can draw its own part
// of one global sequence without talking to the others, and a draw is repeated by repeating its
// counter. Equal to the generator of the same name in Random123, cuRAND and JAX ("Parallel random
// numbers: as easy as 1, 2, 3").
//
// Threads: philox() anywhere; an Rng belongs to one thread.
//
// Example:
//   Rng rng(/*seed=*/7);
//   uint64_t k = rng.below(10);
//   double u = rng.uniform();
//   Rng faults = rng.fork(1);  // An independent stream: drawing from it leaves `rng` as it was.
#pragma once

#include <array>
#include <cstdint>

namespace gangway {

using PhiloxBlock = std::array<uint32_t, 4>;

namespace internal {
constexpr PhiloxBlock philox_round(PhiloxBlock c, uint32_t k0, uint32_t k1) {
  const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
  const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
  return {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
}
}  // namespace internal

// The block at a 128-bit counter; the low half of `key` is the generator's first key word.
constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    counter = internal::philox_round(counter, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// The block number `index` of stream `stream`.
constexpr PhiloxBlock philox(uint64_t key, uint64_t index, uint64_t stream = 0) {
  return philox(key,
                PhiloxBlock{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)});
}

// [0, 1) with 24 bits: every value is a float.
constexpr float to_unit_float(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

class Rng {
 public:
  using result_type = uint32_t;  // A standard UniformRandomBitGenerator.

  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  uint64_t next_u64() {
    const uint64_t low = next_u32();
    return low | uint64_t{next_u32()} << 32;
  }
  // Uniform over [0, n), without bias; n > 0.
  uint64_t below(uint64_t n) {
    // 2^64 mod n: values below it would be drawn once too often.
    const uint64_t skip = (0 - n) % n;
    uint64_t draw = next_u64();
    while (draw < skip) draw = next_u64();
    return draw % n;
  }
  // [0, 1) with 53 bits.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }

  // Returns a stream of its own for each `id`; it does not depend on the draws made from this one.
  Rng fork(uint64_t id) const {
    const PhiloxBlock mixed = philox(seed_, id, ~stream_);
    return Rng(mixed[0] | uint64_t{mixed[1]} << 32, mixed[2] | uint64_t{mixed[3]} << 32);
  }

  uint64_t seed() const { return seed_; }

  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return 0xffffffffu; }
  uint32_t operator()() { return next_u32(); }

 private:
  void refill() {
    block_ = philox(seed_, index_++, stream_);
    used_ = 0;
  }

  uint64_t seed_;
  uint64_t stream_;
  uint64_t index_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace gangway
