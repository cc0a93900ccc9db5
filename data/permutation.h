// A pseudo-random permutation of 0 .. size-1 that needs no memory: any element is computed alone.
//
// With it any host reads a shuffled data set from any position, without a table. A Feistel network
// of Philox blocks over the smallest even number of bits that holds `size` permutes a slightly
// larger range. Values that fall outside are permuted again until they fall inside, which keeps the
// mapping one-to-one.
//
// Threads: a value; safe anywhere.
// Cost: 0.4 to 1.5 us an element: 1 to 4 passes on average.
#pragma once

#include <cstdint>

namespace gangway {

class Permutation {
 public:
  // The same (size, key) is the same permutation on every machine. size > 0.
  Permutation(uint64_t size, uint64_t key);

  uint64_t size() const { return size_; }
  // i < size().
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace gangway
