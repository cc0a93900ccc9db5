// Carries to which a body does nothing but add: sums of gradients over layers or microbatches,
// sums of losses. Such a carry may stay partial through all iterations, and is reduced once behind
// them, where what is added is partial too. So may a stack that is only added to such a carry of a
// loop around it: the gradients of layers that a loop over microbatches sums up.
//
// Threads: a pure function.
// Cost: linear in nodes.
#pragma once

#include <map>
#include <vector>

#include "ir/transforms/propagation/joint_graph.h"

namespace gangway {

struct SumCarries {
  std::vector<bool> ties;                        // By node of the graph: of such a carry or stack.
  std::map<NodeId, std::vector<ValueId>> terms;  // By the tie of a carry: what is added to it.
};

SumCarries sum_carries(const JointGraph& joint);

}  // namespace gangway
