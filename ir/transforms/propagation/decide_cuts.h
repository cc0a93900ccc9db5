// Decides along which factor each node is cut on each mesh axis: all axes together, both
// directions, to a fixpoint, in the nested order of Shardy (openxla/shardy, docs/propagation.md):
//
//   user priority   annotations of lower priority first, until they reach no further
//   op priority     within one, element-wise and shape ops first; then all ops along factors that
//                   results keep; last along those that are summed
//   basic           nodes whose operands and results agree on a factor are cut on it; what is open
//                   around them follows
//   aggressive      where they disagree and nothing else moves, the first such node takes the
//                   factor that costs least; then basic again
//
// A node keeps the factor that it has taken: a later priority finds it decided. A cost is counted
// first in conversions, then, between equals, in conversions of stored tensors (values that a
// parameter's annotation reached: weights stay where they are, activations move), and only then in
// bytes. A larger batch or more devices therefore seldom change which factor is taken, and
// annotations of different priorities never leave the choice to bytes.
//
// The states of an optimizer decide where its gradient lies, never the other way round: one
// gradient moves instead of three states.
//
// Carries that stay partial (sum_carries.h) along an axis, since what iterations add to them is a
// sum that is not done, are not cut for readers behind the loop: they are reduced once.
//
// A value's layout is where its readers meet it: what its producer gives may still be a sum that is
// not done (partial), or whole, and is converted once.
//
// Threads: pure.
// Cost: linear in edges times axes, and of what is added to a carry, in the visits of its tie;
// `steps` counts visits of nodes, and the operands, results and terms that are looked at in them.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "ir/transforms/propagation/annotations.h"
#include "ir/transforms/propagation/joint_graph.h"
#include "ir/transforms/propagation/sharding_decision.h"

namespace gangway {

// How a node is cut on one axis.
struct NodeCut {
  static constexpr int kOpen = -1;   // Nothing decided: not cut.
  static constexpr int kWhole = -2;  // A `constrain` says that it is not.
  int factor = kOpen;                // Or an index into its factors.
  int order = 0;                     // The Placement's order.
  ValueId from = kNone;              // The operand or result that decided.
};

struct Cuts {
  std::vector<std::vector<NodeCut>> nodes;           // [node][axis]
  std::vector<std::vector<int64_t>> parts;           // [node][factor]: in how many it is cut.
  std::vector<Sharding> layouts;                     // [value]; open: replicate.
  std::vector<std::vector<ShardingReason>> reasons;  // [value][axis], of its layout.
  std::vector<ShardingDecision> decisions;           // In the order they were taken.
  // Ties (and axes) of residuals that are kept as sums which are not done (keep_as_read.h).
  std::set<std::pair<NodeId, size_t>> kept_sums = {};
  int64_t steps = 0;
};

// `factors`: of each node, by its row; of a tie, as the graph says. Values, nodes and annotations
// are the graph's.
Cuts decide_cuts(const JointGraph& joint, const std::vector<Factors>& factors,
                 const std::vector<Annotation>& annotations);

}  // namespace gangway
