// Decides along which factor each node is cut on each mesh axis: all axes together, both
// directions, to a fixpoint, in the nested order of Shardy (openxla/shardy, docs/propagation.md):
//
//   user priority   annotations of lower priority first, until they reach no further
//   op priority     within one, element-wise and shape ops first; then all ops along factors that
//                   results keep; last along those that are summed
//   basic           nodes whose operands and results agree on a factor are cut on it; what is open
//                   around them follows
//   aggressive      where they disagree and nothing else moves, the first such node takes the
//                   factor that costs least (conflict_cost.h); then basic again
//
// Invariants, between any two visits of nodes
//  - No decision is taken back. A layout on an axis goes from open to a cut once, a node's cut from
//    open to a factor once, so the end is reached within (values + nodes) * axes moves. A later
//    priority finds the node decided: annotations of different priorities never leave a choice to
//    costs.
//  - A node is cut as it was asked: `from` is an operand or result of the node, and the axis cuts
//    its dimension with the factor. A cut places only values that have the factor and are still
//    open.
//  - Only the user places parameters, and the axes that a `constrain` names.
//  - A node that could take a factor waits for a visit, or stands among the conflicts: to place a
//    value wakes its producer and its readers. At the end nothing waits, and one more visit of any
//    node changes nothing. There is one exception: whether a carry stays partial (sum_terms.h)
//    depends on nodes inside its loop, and these do not wake it.
//  - parts[node][factor] is the product of the axes that cut the factor, including those that a
//    `constrain` of a later priority will cut.
//
// A worked example, over mesh {data: 2, model: 2}. The user cut x: f32[8, 16] by data along its
// rows, and two weights by model, w1: f32[16, 64] along its columns and w2: f32[64, 16] along its
// rows.
//
//   n0: h = dot(x, w1)    n1: a = tanh(h)    n2: y = dot(a, w2)
//
//   visit  asked                   decided
//          by the annotations      x and w1 wake n0, w2 wakes n2
//   level 0, element-wise and shape ops: none waits
//   n0     rows by x, columns      data cuts n0 along rows, model along columns; h is cut by both,
//          by w1                   which wakes n0 and n1
//   n0                             nothing is open any more
//   n1     both by h               as n0, and so is a, which wakes n1 and n2
//   n1                             nothing is open any more
//   n2     rows by a; the summed   data cuts n2 along rows, and so y; to sum is left to level 2
//          factor by a and w2
//   n2                             the summed factor still waits
//   level 2, along factors that are summed
//   n2     the summed factor       model cuts n2 along it; y lacks it, and nothing is placed
//
// y is left open on model: place_values finds that it is a sum that is not done there.
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
  // Ties (and axes) of residuals that are kept as sums which are not done (residual_sharding.h).
  std::set<std::pair<NodeId, size_t>> kept_sums = {};
  int64_t steps = 0;
};

// `factors`: factors_of(joint). Values, nodes and annotations are the graph's.
Cuts decide_cuts(const JointGraph& joint, const std::vector<Factors>& factors,
                 const std::vector<Annotation>& annotations);

}  // namespace gangway
