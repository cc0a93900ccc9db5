// Carries to which a body does nothing but add: sums of gradients over layers or microbatches, sums
// of losses. Such a carry may stay partial through all iterations, and is reduced once behind them,
// if the added terms are partial too. The same holds for a stack that is only added to such a carry
// of a loop around it: the gradients of layers that a loop over microbatches sums up.
//
// Threads: a pure function.
// Cost: linear in nodes.
#pragma once

#include <map>
#include <vector>

#include "ir/transforms/propagation/joint_graph.h"

namespace gangway {

struct SumCarries {
  // Indexed by node of the graph: whether it is the tie of such a carry or stack.
  std::vector<bool> ties;
  std::map<NodeId, std::vector<ValueId>> terms;  // The terms that are added to a carry, by its tie.
};

SumCarries sum_carries(const JointGraph& joint);

}  // namespace gangway
