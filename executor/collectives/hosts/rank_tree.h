// The arithmetic of an all-reduce: the same piece of every member's tensor, combined in a tree that
// depends on the number of members only.
//
//   7 members:  ((0 1) (2 3)) ((4 5) 6)     the left part is the largest power of two below n
//
// Members 8 to 15 of many are thus a subtree of their own, which one host can combine alone. A
// *partial* is the result of such a subtree before it is rounded: bf16 is combined in f32 and
// rounded once, at the end; all other types in themselves (i32 wraps). Max and min keep NaN.
//
// Threads: pure.
// Cost: one pass over the sources, in blocks that stay in the first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "executor/collectives/collective.h"

namespace gangway {

// Bytes of one element of a partial.
int64_t partial_bytes_of(DType dtype);

// Writes the tree over `sources`, elements as stored, to each of `outs`, which may be sources.
void reduce_ranks(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> outs, int64_t elements);
// The same, but not rounded.
void reduce_to_partial(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
                       std::byte* partial, int64_t elements);
// Both operands are partials; `out` may be one of them.
void combine_partials(DType dtype, Reduction reduction, const std::byte* left,
                      const std::byte* right, std::byte* out, int64_t elements);
// The tree over partials, rounded; `out` is none of them.
void reduce_partials(DType dtype, Reduction reduction, std::span<const std::byte* const> partials,
                     std::byte* out, int64_t elements);
void round_partial(DType dtype, const std::byte* partial, std::byte* out, int64_t elements);

}  // namespace gangway
