// SumTerms: which values are terms of sums that are not done along a mesh axis, while cuts are
// being decided. The fixpoint asks before it cuts a carry to which a loop's iterations only add
// (sum_carries.h): if all that is added are terms, the carry stays partial through the loop and is
// reduced once behind it, however readers want it cut.
//
// Invariants
//  - A value is a term along an axis if one operand of one node reads it, and its producer either
//    is cut there on a factor that it sums and that the value lacks; or is not decided there, and
//    passes on the terms that it is given (passes_sums). A carry that is added to is a term if all
//    that is added to it are, and a stack of terms that is only added to such a carry is one.
//  - Nothing else is a term: a parameter, a value that several operands read (one of them may want
//    it whole), a value that a `constrain` says is whole, the result of a cut that does not sum.
//  - An answer holds for the cuts at the time of the question, and no answer is kept: a node that
//    passes on terms ceases to when it is cut.
//
// A worked example: gradients of a product are summed over microbatches, over mesh {data: 2}.
//
//   body of the scan, with total: f32[16, 4], x: f32[8, 16] and dy: f32[8, 4], both cut by rows
//     g = dot(transpose(x), dy)   is cut on the factor that it sums, the rows: g is a term
//     s = g * 0.5                 is not decided and is linear in g alone: s is a term
//     next = total + s            s is all that is added to the carry
//   behind the scan
//     a state that data cuts by rows reads the last total
//
// adds_only_terms() is true of the carry's tie along data: the state's rows do not cut the loop.
// Each device adds up its own f32[16, 4], which is scattered once, not in every iteration. If the
// body also gave s to another node, that one would need it reduced: s would be no term, the carry
// would be cut as the state is, and each iteration would scatter its s.
//
// Threads: one thread.
// Ownership: keeps references to the graph, its factors and cuts, which must live as long.
// Cost: a question takes time in the nodes that lead to what is added to the carry; `steps` counts
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ir/transforms/propagation/decide_cuts.h"
#include "ir/transforms/propagation/joint_graph.h"
#include "ir/transforms/propagation/sum_carries.h"

namespace gangway {

// Whether a node that is not cut along an axis passes on unreduced sums, given the operands for
// which `is_sum` is true.
bool passes_sums(const Function& graph, NodeId id, const std::function<bool(ValueId)>& is_sum);

class SumTerms {
 public:
  // `cuts`: [node][axis], as far as decided.
  SumTerms(const JointGraph& joint, const std::vector<Factors>& factors,
           const std::vector<std::vector<NodeCut>>& cuts);

  // Whether the node is the tie of a carry to which iterations add nothing but terms along the
  // axis.
  bool adds_only_terms(NodeId id, int axis);

  int64_t steps() const { return steps_; }

 private:
  using Known = std::map<ValueId, bool>;  // For each value: whether it is a term.

  bool is_term(ValueId value, int axis, Known& known);
  std::vector<ValueId> terms_behind(ValueId value, int axis) const;
  bool gives_term(ValueId value, int axis, const Known& known) const;
  int cut_of(NodeId id, int axis) const { return cuts_[id][static_cast<size_t>(axis)].factor; }

  const JointGraph& joint_;
  const Function& graph_;
  const std::vector<Factors>& factors_;
  const std::vector<std::vector<NodeCut>>& cuts_;
  const SumCarries sums_;
  const std::vector<NodeId> makers_;  // Indexed by value.
  std::vector<uint32_t> reads_;       // Indexed by value: number of operands that read it.
  int64_t steps_ = 0;
};

}  // namespace gangway
