#include "ir/transforms/propagation/sum_carries.h"

#include <algorithm>

namespace gangway {
namespace {

class SumCarries {
 public:
  explicit SumCarries(const JointGraph& joint)
      : joint_(joint), graph_(joint.graph()), readers_(graph_.types.size()) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const std::vector<ValueId>& inputs = graph_.nodes[id].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) readers_[inputs[i]].push_back({id, i});
    }
    for (ValueId result : graph_.results) readers_[result].push_back({});
  }

  std::vector<bool> run() {
    std::vector<bool> found(graph_.nodes.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      found[id] = joint_.tie(id) == JointGraph::TieKind::kCarry && is_added_to(id);
    return found;
  }

 private:
  struct Reader {
    NodeId node = kNone;
    size_t operand = 0;
  };

  // From what an iteration gets to what it gives, each value read once.
  bool is_added_to(NodeId tie) const {
    const ValueId gives = graph_.nodes[tie].inputs.back();
    ValueId at = graph_.nodes[tie].first_result;
    if (!is_float(graph_.types[at].dtype)) return false;
    while (readers_[at].size() == 1) {
      const Reader& reader = readers_[at][0];
      if (reader.node == tie) return at == gives && reader.operand + 1 == inputs_of(tie);
      if (reader.node == kNone) return false;
      const ValueId next = passed_on(reader);
      if (next == kNone || next <= at || !is_float(graph_.types[next].dtype)) return false;
      at = next;
    }
    return false;
  }

  size_t inputs_of(NodeId id) const { return graph_.nodes[id].inputs.size(); }

  // What stands for the value behind its reader; kNone: it is not just added to.
  ValueId passed_on(const Reader& reader) const {
    const Node& node = graph_.nodes[reader.node];
    if (joint_.tie(reader.node) == JointGraph::TieKind::kCarry)
      return reader.operand + 1 < node.inputs.size()
                 ? node.first_result + static_cast<ValueId>(reader.operand) + 1
                 : kNone;
    if (joint_.is_tie(reader.node)) return kNone;
    const bool passes = node.op == Op::add || node.op == Op::convert || node.op == Op::barrier;
    return passes ? node.first_result : kNone;
  }

  const JointGraph& joint_;
  const Function& graph_;
  std::vector<std::vector<Reader>> readers_;  // By value.
};

}  // namespace

std::vector<bool> sum_carries(const JointGraph& joint) {
  if (joint.parts().size() == 1) return std::vector<bool>(joint.graph().nodes.size(), false);
  return SumCarries(joint).run();
}

}  // namespace gangway
