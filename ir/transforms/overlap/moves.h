// Nodes that move elements or convert them: the way of a parameter from where it is stored to where
// it is used. Products and sums are none.
//
// Threads: pure functions.
#pragma once

#include <algorithm>

#include "ir/graph/function.h"

namespace gangway {

inline constexpr Op kMoves[] = {Op::convert,    Op::reshape,    Op::transpose,
                                Op::slice,      Op::barrier,    Op::shard_slice,
                                Op::all_gather, Op::all_to_all, Op::permute};

inline bool only_moves(const Node& node) { return std::ranges::count(kMoves, node.op) > 0; }

}  // namespace gangway
