// Attention over a sequence that is cut over devices: keys and values go round the ring of members,
// each member attends to the part that it has, and the results of parts are merged by their
// logsumexp (Ring Attention, Liu et al. 2023). The adjoint sends the gradients of keys and values
// round with them.
//
// With `causal` a device that held the last rows would see n times as many keys as the first.
// Therefore rows are dealt out in stripes (Striped Attention, Brandon et al. 2023): member m gets
// rows m, m + n, m + 2n ... Then each part of the keys is a triangle for every member, and all have
// the same work at every step. The other balanced cut gives member i the chunks i and 2n - 1 - i of
// 2n. It is balanced only over blocks of half a chunk, and takes a permutation that no collective
// has; stripes are dealt out, and brought back, by one plain all-to-all. Stripes need a number of
// rows in each part that n divides; otherwise each member keeps its own rows, and the later members
// work longer.
//
// The loop over members is one scan, in which the permutes of the next part overlap with the work
// on this one. The graph is therefore as large for 2 devices as for 2,048. With n members and B
// bytes of a tensor on each, a member sends 2 B (n - 1), the adjoint 2 B (n - 1) and 2 W n, where W
// is B in the type of sums. Stripes add (n - 1) / n of the tensors that are dealt out and come
// back: 4 B (q, k, v, out), for the adjoint 8 B (with dout and three gradients), and for both the
// logsumexp of the rows.
//
// Threads: pure functions.
#pragma once

#include <vector>

#include "ir/build/value.h"
#include "ir/op_table/op.h"

namespace gangway::internal {

inline constexpr std::string_view kRingAttention = "ring_attention";

DistributedOp ring_attention();
DistributedOp ring_attention_grad();
DistributedOp packed_ring_attention();
DistributedOp packed_ring_attention_grad();

// [.., 3, dim] -> queries, keys and values, [.., dim] each; packed() lays three such tensors side
// by side again.
std::vector<Value> unpacked(Value qkv, Loc loc);
Value packed(const std::vector<Value>& parts, Loc loc);

}  // namespace gangway::internal
