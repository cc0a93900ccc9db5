// How rows of dropless experts go to the devices of their experts, in numbers that are known only
// when the step runs, and how the products come back (dropless experts: MegaBlocks, Gale et al.
// 2022; expert parallelism: GShard, Lepikhin et al. 2020).
//
//   here       this device's groups [groups, slots, d], sorted by expert within each
//   sorted     the same rows over all its groups by expert, so by device that has the expert
//   received   [bound, d] by sender: ragged_all_to_all; rows that stay are not sent
//   there      the same rows by expert of this device
//
// and back through the same permutations. The rows of a single group are sorted as they lie. How
// many rows of each expert come is exchanged first, an all-to-all of experts numbers.
//
// A device has room for `bound` times the rows that it has itself, at least one, at most those of
// all. A run in which more come fails, uncommitted, with rows_overflow() (ir/plan/rows_overflow.h).
//
// Threads: one thread, the builder's.
#pragma once

#include <string>
#include <vector>

#include "ir/build/ops.h"

namespace gangway {

// The facts of an exchange that are known before the step runs.
struct ExchangeShape {
  std::string axes;               // The axes that cut the experts, "data,model".
  int64_t members = 1;            // Number of devices that meet along them.
  int64_t groups = 1, slots = 1;  // This device has so many groups of so many slots each.
  int64_t bound = 1;              // Number of rows that this device has room for.
};

// Number of rows that a product has room for on one of `members` devices with `rows` rows each:
// `bound` times `rows`, at most the rows of all members.
int64_t rows_bound(double bound, int64_t rows, int64_t members);

class ExpertExchange {
 public:
  // Traces which row goes where: sizes i32[groups, experts] says how many rows of each group each
  // expert has.
  ExpertExchange(ExchangeShape shape, Value sizes);
  // An exchange of which another builder traced where rows go: `values` stand for its values().
  ExpertExchange(ExchangeShape shape, const std::vector<Value>& values);

  // The first of them is i32[1, experts of this device]: how many rows of each lie there.
  std::vector<Value> values() const;

  // x[groups, slots, d] -> [1, bound, d], by expert.
  Value there(Value x) const;
  // The inverse; rows of no expert are zeros.
  Value here(Value y) const;

 private:
  int64_t rows() const { return shape_.groups * shape_.slots; }
  Value exchanged(Value x, Value sizes, int64_t bound, bool must_fit) const;

  const ExchangeShape shape_;
  Route by_expert_;                  // Where received rows lie there.
  Value to_members_, from_members_;  // i32[members]: how many rows are sent and received.
  Route sorted_;                     // Where this device's rows lie sorted; of one group: none.
};

}  // namespace gangway
