// Counter-based random tensors: element i depends on (key, i) alone, so each shard computes its
// own part.
//
// Philox4x32-10 (Salmon et al. 2011): the 128-bit counter {block, 0} gives four words. f32 and bf16
// element i uses word i % 4 of block i / 4; f64 element i uses words 2 (i % 2) and 2 (i % 2) + 1 of
// block i / 2.
//
//   uniform  f32 (word >> 8) * 2^-24 in [0, 1); f64 53 bits; bf16 rounds the f32 down, so that 1
//            never appears
//   normal   Box-Muller over pairs of uniforms; even elements take the cosine, odd ones the sine
//
// The part to compute is y[sizes..., cols]; its element (i..., c) is number
// first + i... * strides... + c of the sequence that belongs to the key.
// Threads: any. The bits do not depend on the instruction set either.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct RandomShape {
  DType dtype = DType::kF32;
  int64_t cols = 0;
  std::vector<int64_t> sizes = {}, strides = {};  // Outer dimensions.
};

// Position of the part's first element in the random sequence of its key.
struct RandomStart {
  uint32_t key[2] = {0, 0};
  int64_t first = 0;
};

void random_uniform(Parallel& par, const RandomShape& shape, const RandomStart& start, void* y);
void random_normal(Parallel& par, const RandomShape& shape, const RandomStart& start, void* y);

}  // namespace gangway
