// Distributed ops: how an op runs on several devices where a factor of it is cut that takes more
// than the op on parts (Factor::distributed_op). Each is a function that traces what one device
// does, local ops and collectives, in the row of its op (OpRow::distributed_ops).
//
// To propagation a factor with a distributed op is a factor like any other: cut, an operand or
// result that has it is cut, a result that lacks it is whole (kPass) or a sum of terms (kReduce).
// The partitioner converts operands to that, calls `build` in place of the op, and goes on with its
// results (ir/transforms/conversions/distribute_node.h). At most one factor with a distributed op
// is cut of one node; other factors may be cut beside it, and the distributed op sees only that
// local operands and attributes are smaller. Products of dropless experts have no `build`: rows
// stay with the experts from one node to the next (ir/transforms/conversions/expert_rows.h).
//
// Invariants
//  - Every device traces the same ops. A device learns its member number at run time (axis_index).
//  - The number of ops does not depend on the number of members: a loop over members is a scan
//    with a permute in its body.
//  - Functions are differentiated before they are cut, so distributed ops never are: an adjoint is
//    an op with a row, and distributed ops, of its own.
//
// Example (a table whose rows are cut: each device looks up what it has):
//   std::vector<Value> distributed_take(const DistributedCall& c) {
//     Value table = c.inputs[0];  // [n / members, ...]
//     Value first = member_index(c) * table.dim(0);
//     return {take(table, c.inputs[1] - first)};  // A term: others' rows are zeros.
//   }
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_table/op.h"

namespace gangway {

struct DistributedCall {
  Builder& builder;    // Builds the local function; nodes get the line of the node cut.
  const OpCall& call;  // In the global view.
  const Attrs& attrs;  // Attributes of one device's op (local_attrs), with all its factors cut.
  // The axes that cut the factor, "data,model": members are numbered outer first.
  const std::string& axes;
  int64_t members;                   // How many parts, all of one size.
  const std::vector<Value>& inputs;  // This device's operands.
};

// The row's distributed op of that name; asserts that there is one.
const DistributedOp& distributed_op_of(Op op, std::string_view name);

// The factor with a distributed op that is cut, or null.
const Factor* distributed_factor(const Factors& factors, std::span<const int64_t> parts);

}  // namespace gangway
