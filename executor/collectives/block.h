// Block: the bytes that one member of a group gives another, with their offsets in the sender's
// `in` and in the receiver's `out`: runs of bytes at regular distances, in row-major order.
//
// Both sides derive the same blocks from their own calls (collective_call.h), so they agree on how
// many bytes come and in which order, and no message carries that. For ragged rows each side knows
// only its own half, so block_of() takes the call of either.
//
// Threads: values. Cost: block_of() of ragged rows is linear in the members before.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "executor/collectives/collective_call.h"

namespace gangway {

struct Block {
  std::array<int64_t, 4> count = {1, 1, 1, 1};
  std::array<int64_t, 4> in_step{}, out_step{};
  int64_t in_begin = 0, out_begin = 0;
  int64_t run = 0;                                        // Bytes that are contiguous in both.
  int64_t out_end = std::numeric_limits<int64_t>::max();  // Bytes behind it are dropped.

  int64_t bytes() const { return count[0] * count[1] * count[2] * count[3] * run; }
};

// The block that member `from` of `members` gives member `to`; empty if it gives nothing. One of
// the calls may be null: then offsets in its tensor are not known. For kReduceScatter: the block
// that is reduced of every member's `in`.
Block block_of(const CollectiveCall* sender, const CollectiveCall* receiver, uint32_t members,
               uint32_t from, uint32_t to);

// The values that determine all blocks of a call, so that data derived from the blocks may serve
// the next call too. Blocks of ragged rows and of a permute also depend on arrays that the call
// points to.
struct BlockShape {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  int64_t elements = 0;
  CollectiveCut cut;
  uint32_t root = 0;

  static BlockShape of(const CollectiveCall& call) {
    return {call.kind, call.tensors[0].dtype, call.tensors[0].elements, call.cut, call.root};
  }
  bool is_all() const {
    return kind != CollectiveKind::kRaggedAllToAll && kind != CollectiveKind::kPermute;
  }
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// body(in, out, bytes): offsets of the bytes [begin, end) of the block in the two tensors, in
// order.
template <class Body>
void for_each_run(const Block& block, int64_t begin, int64_t end, Body body) {
  if (begin >= end) return;
  // Most blocks are contiguous, and most ranges begin where their block does.
  if (block.run == block.bytes())
    return body(block.in_begin + begin, block.out_begin + begin, end - begin);
  std::array<int64_t, 4> at{};
  int64_t skip = 0;
  if (begin > 0) {
    skip = begin % block.run;
    int64_t rest = begin / block.run;
    for (size_t d = 4; d-- > 0;) {
      at[d] = rest % block.count[d];
      rest /= block.count[d];
    }
  }
  while (begin < end) {
    int64_t in = block.in_begin + skip, out = block.out_begin + skip;
    for (size_t d = 0; d < 4; ++d) {
      in += at[d] * block.in_step[d];
      out += at[d] * block.out_step[d];
    }
    const int64_t n = std::min(block.run - skip, end - begin);
    body(in, out, n);
    begin += n;
    skip = 0;
    for (size_t d = 4; d-- > 0;) {
      if (++at[d] < block.count[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace gangway
