// ConflictCost: the traffic that cutting a node on a factor would cause. It settles conflicts:
// where the operands and results of a node ask for different factors on one axis, the node takes
// the factor that costs least.
//
// Along an axis of n devices, a tensor of b bytes (its part over the other axes) costs each device:
//
//   operand or result that no axis cuts yet, or cut as the factor cuts it    nothing
//   the factor cuts another dimension of it (it is cut anew)                 b (n - 1) / n / n
//   operand that the factor leaves whole (it is gathered)                    b (n - 1) / n
//   result that the factor sums (its terms are scattered)                    b (n - 1) / n
//   result that the factor leaves whole (each device takes its part of it)   nothing
//
// A factor with a distributed op adds what that sends, as one conversion.
//
// Invariants
//  - A cost follows from the node, its factor and the layouts of its operands and results along all
//    axes. It is zero if and only if nothing moves.
//  - Costs are compared first in conversions, then, between equals, in conversions of stored
//    tensors (values that a parameter's annotation reached: weights stay where they are,
//    activations move), and only then in bytes. Sizes and numbers of devices enter bytes alone, so
//    that a larger batch or more devices seldom change which factor is taken.
//
// A worked example, of y = dot(x, w) over mesh {data: 2}, where the user has cut the rows of both
// parameters, x: f32[8, 64] and w: f32[64, 4096]. The node has the factors i (rows of x), j
// (columns of w) and k (which it sums), and is asked for two of them:
//
//   factor  asked by  x        w         conversions  stored  bytes
//   i       x         stays    gathered  1            1       64 * 4096 * 4 / 2     = 524,288
//   k       w         cut anew stays     1            1       8 * 64 * 4 / 2 / 2    = 512
//
// Both move one stored tensor, so bytes decide: it is cut on k, and y is a sum that is not done. If
// x were not a parameter but an activation, k would cost no stored conversion, and win for any size
// of x.
//
// Threads: any thread, as long as nobody writes the layouts.
// Ownership: keeps references to the graph, its factors, layouts and set, which must live as long.
// Cost: linear in operands and results, times axes.
#pragma once

#include <vector>

#include "ir/transforms/propagation/sharding_decision.h"
#include "ir/transforms/propagation/value_axes.h"

namespace gangway {

class ConflictCost {
 public:
  // `factors`: indexed by node. `layouts`: indexed by value, with replicate where nothing is known.
  // `stored`: the layouts that a parameter's annotation reached.
  ConflictCost(const Function& graph, const std::vector<Factors>& factors,
               const std::vector<Sharding>& layouts, const ValueAxes& stored)
      : graph_(graph), factors_(factors), layouts_(layouts), stored_(stored) {}

  // The cost of cutting the node along the axis on the factor of this index.
  CutCost of(NodeId id, int axis, int factor) const;

 private:
  const Placement& layout(ValueId value, int axis) const;
  void add(CutCost& cost, ValueId value, int axis, bool is_cut_anew) const;

  const Function& graph_;
  const std::vector<Factors>& factors_;
  const std::vector<Sharding>& layouts_;
  const ValueAxes& stored_;
};

bool is_cheaper(const CutCost& a, const CutCost& b);

}  // namespace gangway
