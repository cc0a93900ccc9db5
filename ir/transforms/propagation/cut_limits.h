// CutLimits: whether a node may be cut into more parts along one of its factors.
//
// Invariants
//  - A cut that is permitted can be partitioned: the op allows it (FactorKind), no part is empty
//    for lack of indices, and at most one factor with a distributed op is cut, into equal parts.
//  - Parts are unequal only as the tensor that asks for the cut is itself, and only where the op
//    may run on parts that end in padding (may_pad). Axes of different tensors that meet in a node
//    make no unequal parts.
//  - The more a node is cut, the less is permitted: a refusal ends only if the tensor that asks is
//    cut into more parts.
//
// A worked example, over mesh {data: 4, model: 2}:
//
//   tanh(x), x: f32[10] cut by data                4 parts of 3, 3, 3 and 1: permitted, as x is cut
//   exp(x), x: f32[10] cut by data                 refused: exp(0) is 1, no padding; x is gathered
//   x + y of f32[12], x cut by data, y by model    data: 4 parts of 3, permitted. model: 8 parts of
//                                                  12 are unequal and y has only 2: refused
//
// Threads: one thread.
// Ownership: keeps references to the graph, its factors and its parts, which must live as long.
// Cost: linear in the node's operands and results, for each other factor that a distributed op
// concerns.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/transforms/propagation/joint_graph.h"

namespace gangway {

class CutLimits {
 public:
  // `parts`: [node][factor], in how many each node is cut by now.
  CutLimits(const JointGraph& joint, const std::vector<Factors>& factors,
            const std::vector<std::vector<int64_t>>& parts)
      : joint_(joint), graph_(joint.graph()), factors_(factors), parts_(parts) {}

  // Whether the axis may cut the factor of this index, for a tensor that is cut into `asked` parts
  // along its dimension with the factor.
  bool can_cut(NodeId id, int index, int axis, int64_t asked);

  int64_t steps() const { return steps_; }  // Number of operands and results that were looked at.

 private:
  bool divides_with_others(NodeId id, size_t index, int64_t parts);
  bool is_distributed_along_another(NodeId id, size_t index) const;
  bool may_pad_along(NodeId id, const Factor& factor) const;

  const JointGraph& joint_;
  const Function& graph_;
  const std::vector<Factors>& factors_;
  const std::vector<std::vector<int64_t>>& parts_;
  int64_t steps_ = 0;
};

}  // namespace gangway
