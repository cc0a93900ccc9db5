// Placements of the values that each node produces and needs, derived from how nodes are cut: a
// reduced factor that is cut makes the result partial; ops that are linear in a partial operand
// pass it on, others force its sum first; terms of several sums are added before they are reduced,
// also where readers want the sum cut; axes that nothing decides are replicated.
//
// Carries that are sums (sum_carries.h) are assumed to stay partial on every axis that does not cut
// them; where an iteration turns out to give no sum, they are not, and all is placed again.
//
// Threads: a pure function.
// Cost: linear in nodes times axes, a few times over.
#pragma once

#include <vector>

#include "ir/transforms/propagation/decide_cuts.h"
#include "ir/transforms/propagation/joint_graph.h"

namespace gangway {

struct PlacedValues {
  std::vector<Sharding> shardings;                   // Indexed by value of the graph.
  std::vector<std::vector<Sharding>> required;       // [node][operand]
  std::vector<std::vector<ShardingReason>> reasons;  // [value][axis]
};

PlacedValues place_values(const JointGraph& joint, const std::vector<Factors>& factors,
                          const Cuts& cuts, const std::vector<Sharding>& parameter_shardings);

}  // namespace gangway
