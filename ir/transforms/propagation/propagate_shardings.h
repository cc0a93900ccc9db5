// Gives every value of a global function a placement on each mesh axis.
//
// Works on the factors of each op's row, one mesh axis at a time, in the manner of Shardy
// (openxla/shardy, docs/propagation.md): forward from annotated parameters; values that nothing
// decides yet (constants, iota, broadcasts of replicated values) take what their consumers want;
// what stays open is replicated. A reduced factor that is cut makes the result partial; ops that
// are linear in a partial operand pass it on, others force its sum first.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Why a value has its sharding: "sharded on data because parameter "tokens" was; through dot %14".
struct ShardingReason {
  ValueId from = kNone;    // The value that decided, or itself when annotated.
  NodeId through = kNone;  // The node between them.
};

struct Propagation {
  std::vector<Sharding> shardings;  // What the producer gives, by ValueId.
  // What each node wants of its operands: required[node][operand]; where it differs from
  // `shardings`, a conversion.
  std::vector<std::vector<Sharding>> required;
  std::vector<std::vector<int64_t>> parts;           // [node][factor]: in how many it is cut.
  std::vector<std::vector<ShardingReason>> reasons;  // [value][axis]
};

Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings);

// The chain of decisions that gave `value` its sharding, one line each, in the words of the user's
// source.
std::string explain(const Function& global, const Propagation& propagation, ValueId value);

}  // namespace gangway
