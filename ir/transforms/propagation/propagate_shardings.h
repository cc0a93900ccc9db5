// Gives every value of a global function a placement on each mesh axis, from what the user said of
// parameters, results and values inside (`constrain`), by the factors of each op's row.
//
//   decide_cuts         which factor each node is cut on, on each axis: priorities, both directions
//   here                what that makes of values: a reduced factor that is cut makes the result
//                       partial; ops that are linear in a partial operand pass it on, others force
//                       its sum first; what nothing decides is replicated
//
// Threads: pure.
// Errors: kInvalid where two annotations disagree, naming both places.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/propagation/sharding_decision.h"

namespace gangway {

struct Propagation {
  std::vector<Sharding> shardings;  // What the producer gives, by ValueId; canonical.
  // What each node wants of its operands: required[node][operand]; where it differs from
  // `shardings`, a conversion.
  std::vector<std::vector<Sharding>> required;
  std::vector<std::vector<int64_t>> parts;           // [node][factor]: in how many it is cut.
  std::vector<std::vector<ShardingReason>> reasons;  // [value][axis]
  std::vector<ShardingDecision> decisions;           // In the order they were taken.
  int64_t steps = 0;                                 // Visits of nodes that it took.
};

// Shardings are canonical, one for each parameter; one for each result, where an empty one is open,
// or none at all.
Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings,
                                const std::vector<Sharding>& result_shardings = {});

// The chain of decisions that gave `value` its sharding, one line each, in the words of the user's
// source, and what else each could have been at what cost.
std::string explain(const Function& global, const Propagation& propagation, ValueId value);

}  // namespace gangway
