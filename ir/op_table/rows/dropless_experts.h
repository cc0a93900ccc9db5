// Products of experts' rows where experts are cut over devices and have no capacity: rows go to
// their experts' devices, in numbers that are known only when the step runs, and the products come
// back (dropless experts: MegaBlocks, Gale et al. 2022; expert parallelism: GShard, Lepikhin et al.
// 2020).
//
//   here       this device's groups [groups, slots, d], sorted by expert within each
//   sorted     the same rows over all its groups by expert, so by device that has the expert
//   received   [bound, d] by sender: ragged_all_to_all; rows that stay are not sent
//   there      the same rows by expert of this device: one product with each of its matrices
//
// and back through the same permutations. How many rows of each expert come is exchanged first, an
// all-to-all of experts numbers.
//
// Each product is lowered for itself. Between products of the same rows they stay where they are:
// ir/transforms/conversions/keep_rows_there.h takes away what goes back only to come again.
//
// A device has room for `bound` times the rows that it has itself, at least one, at most those of
// all. A run in which more come fails, uncommitted, with rows_overflow() (ir/plan/rows_overflow.h).
//
// Threads: pure functions.
#pragma once

#include "ir/op_table/op.h"

namespace gangway::internal {

inline constexpr std::string_view kDroplessExperts = "dropless_experts";

inline constexpr double kDroplessBound = 2;  // Default bound.

// Number of rows that a product has room for on one of `members` devices with `rows` rows each:
// `bound` times `rows`, at most the rows of all members.
int64_t rows_bound(double bound, int64_t rows, int64_t members);

Lowering dropless_product();  // grouped_dot
Lowering dropless_grad_w();   // grouped_dot_grad_w

}  // namespace gangway::internal
