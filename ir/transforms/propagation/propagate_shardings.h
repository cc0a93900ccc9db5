// Gives every value of a global function a placement on each mesh axis, from what the user said of
// parameters, results and values inside (`constrain`), by the factors of each op's row.
//
//   JointGraph          the function and the bodies of its scans and calls as one graph
//   decide_cuts         which factor each node is cut on, on each axis: the fixpoint of priorities,
//                       in both directions. It asks conflict_cost what a cut would move, sum_terms
//                       what a loop adds up unreduced, and cut_limits which cuts are possible
//   place_values        what that makes of values: whole, in parts, or sums that are not done yet
//   shard_residuals     residuals that both passes read gathered are kept so
//
// Threads: pure.
// Errors: kInvalid where two annotations disagree, naming both places.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/propagation/sharding_decision.h"

namespace gangway {

// How the values and nodes of one function are placed.
struct FunctionShardings {
  std::vector<Sharding> shardings;  // The producer's sharding, indexed by ValueId; canonical.
  // The shardings that each node needs of its operands: required[node][operand]; a conversion is
  // needed if it differs from `shardings`.
  std::vector<std::vector<Sharding>> required;
  std::vector<std::vector<int64_t>> parts;  // [node][factor]: in how many it is cut.
  // For a body: the sharding in which it passes on each result.
  std::vector<Sharding> results = {};
  std::map<NodeId, size_t> body_of = {};  // For scans and calls: index into Propagation::bodies.
};

// The shardings of a function, and of all bodies that its scans and calls name, each once: a body
// is cut in one way for all nodes that name it. `reasons` and `decisions` count values and nodes as
// JointGraph does, which is as the function does if it has no bodies.
struct Propagation : FunctionShardings {
  std::vector<FunctionShardings> bodies;
  std::vector<std::vector<ShardingReason>> reasons;  // [value][axis]
  std::vector<ShardingDecision> decisions;           // In the order they were taken.
  int64_t steps = 0;                                 // Nodes, operands and results looked at.
};

// Shardings are canonical, one for each parameter; one for each result, where an empty one is open,
// or none at all.
Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings,
                                const std::vector<Sharding>& result_shardings = {});

// The chain of decisions that gave `value` its sharding, one line each, in the words of the user's
// source, and what else each could have been at what cost. `in`: the body that has the value; null:
// the function itself.
std::string explain(const Function& global, const Propagation& propagation, ValueId value,
                    const Function* in = nullptr);

}  // namespace gangway
