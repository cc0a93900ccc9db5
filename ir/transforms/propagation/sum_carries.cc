#include "ir/transforms/propagation/sum_carries.h"

#include <algorithm>

namespace gangway {
namespace {

class Finder {
 public:
  explicit Finder(const JointGraph& joint)
      : joint_(joint),
        graph_(joint.graph()),
        makers_(producers(graph_)),
        readers_(readers(graph_)) {}

  SumCarries run() {
    SumCarries found{.ties = std::vector<bool>(graph_.nodes.size(), false), .terms = {}};
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      std::vector<ValueId> terms;
      if (joint_.tie(id) != JointGraph::TieKind::kCarry || !is_added_to(id, terms)) continue;
      found.ties[id] = true;
      mark_stacks(terms, found.ties);
      found.terms[id] = std::move(terms);
    }
    return found;
  }

 private:
  // From what an iteration gets to what it gives, each value read once. `terms`: what is added, and
  // what loops inside give that add to it.
  bool is_added_to(NodeId tie, std::vector<ValueId>& terms) const {
    const ValueId gives = graph_.nodes[tie].inputs.back();
    ValueId at = graph_.nodes[tie].first_result;
    if (!is_float(graph_.types[at].dtype)) return false;
    while (readers_[at].size() == 1) {
      const ValueReader& reader = readers_[at][0];
      if (reader.node == tie) return at == gives && reader.operand + 1 == inputs_of(tie);
      if (reader.node == kNone) return false;
      const ValueId next = passed_on(reader);
      if (next == kNone || next <= at || !is_float(graph_.types[next].dtype)) return false;
      const Node& node = graph_.nodes[reader.node];
      if (joint_.is_tie(reader.node)) {
        terms.push_back(next);
      } else if (node.op == Op::add) {
        terms.push_back(node.inputs[1 - reader.operand]);
      }
      at = next;
    }
    return false;
  }

  size_t inputs_of(NodeId id) const { return graph_.nodes[id].inputs.size(); }

  // The value that its reader turns the value into; kNone: it is not just added to.
  ValueId passed_on(const ValueReader& reader) const {
    const Node& node = graph_.nodes[reader.node];
    if (joint_.tie(reader.node) == JointGraph::TieKind::kCarry)
      return reader.operand + 1 < node.inputs.size()
                 ? node.first_result + static_cast<ValueId>(reader.operand) + 1
                 : kNone;
    if (joint_.is_tie(reader.node)) return kNone;
    const bool passes = node.op == Op::add || node.op == Op::convert || node.op == Op::barrier;
    return passes ? node.first_result : kNone;
  }

  // Marks the stacks among the terms that nothing else reads.
  void mark_stacks(std::vector<ValueId> terms, std::vector<bool>& found) const {
    while (!terms.empty()) {
      const ValueId term = terms.back();
      terms.pop_back();
      const NodeId maker = makers_[term];
      if (maker == kNone || readers_[term].size() != 1) continue;
      const Node& node = graph_.nodes[maker];
      if (joint_.tie(maker) == JointGraph::TieKind::kStackedResult) {
        found[maker] = node.results == 1 && is_float(graph_.types[term].dtype);
      } else if (!joint_.is_tie(maker) && passes_terms(node.op)) {
        terms.insert(terms.end(), node.inputs.begin(), node.inputs.end());
      }
    }
  }

  static bool passes_terms(Op op) {
    return op == Op::add || op == Op::convert || op == Op::barrier || op == Op::constrain;
  }

  const JointGraph& joint_;
  const Function& graph_;
  const std::vector<NodeId> makers_;                     // Indexed by value.
  const std::vector<std::vector<ValueReader>> readers_;  // Indexed by value.
};

}  // namespace

SumCarries sum_carries(const JointGraph& joint) {
  if (joint.parts().size() == 1)
    return {.ties = std::vector<bool>(joint.graph().nodes.size(), false), .terms = {}};
  return Finder(joint).run();
}

}  // namespace gangway
