#include "ir/transforms/propagation/sum_terms.h"

#include <algorithm>

namespace gangway {

bool passes_sums(const Function& graph, NodeId id, const std::function<bool(ValueId)>& is_sum) {
  const Node& node = graph.nodes[id];
  if (node.op == Op::broadcast) return false;  // Cheaper summed before it grows.
  size_t sums = 0, floats = 0;
  bool first = false;
  // Integer division, truncation and indices are not linear.
  for (uint32_t r = 0; r < node.results; ++r) {
    if (!is_float(graph.types[node.first_result + r].dtype)) return false;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool number = is_float(graph.types[node.inputs[i]].dtype);
    floats += number;
    if (!is_sum(node.inputs[i])) continue;
    if (!number) return false;
    ++sums;
    first |= i == 0;
  }
  if (sums == 0) return false;
  switch (row(node.op).linear) {
    case Linear::kNo: return false;
    case Linear::kAll: return sums == floats;
    case Linear::kEach: return sums == 1;
    case Linear::kFirst: return sums == 1 && first;
  }
  return false;
}

SumTerms::SumTerms(const JointGraph& joint, const std::vector<Factors>& factors,
                   const std::vector<std::vector<NodeCut>>& cuts)
    : joint_(joint),
      graph_(joint.graph()),
      factors_(factors),
      cuts_(cuts),
      sums_(sum_carries(joint)),
      makers_(producers(graph_)),
      reads_(graph_.types.size(), 0) {
  for (const Node& node : graph_.nodes) {
    for (ValueId input : node.inputs) ++reads_[input];
  }
}

bool SumTerms::adds_only_terms(NodeId id, int axis) {
  const auto terms = sums_.terms.find(id);
  if (terms == sums_.terms.end()) return false;
  Known known;
  return std::ranges::all_of(terms->second,
                             [&](ValueId term) { return is_term(term, axis, known); });
}

// Chains of values are as long as a user's function: those that are still to be decided stand in
// a list, each behind the one that waits for it.
bool SumTerms::is_term(ValueId value, int axis, Known& known) {
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId at = open.back();
    ++steps_;
    bool waits = false;
    if (known.try_emplace(at, false).second) {
      for (const ValueId behind : terms_behind(at, axis)) {
        if (known.contains(behind)) continue;
        open.push_back(behind);
        waits = true;
      }
    }
    if (waits) continue;
    open.pop_back();
    known[at] = gives_term(at, axis, known);
  }
  return known[value];
}

// The values that decide whether this is a term; none where that is known without them.
std::vector<ValueId> SumTerms::terms_behind(ValueId value, int axis) const {
  const NodeId id = makers_[value];
  if (id == kNone || reads_[value] != 1 || cut_of(id, axis) != NodeCut::kOpen) return {};
  const Node& node = graph_.nodes[id];
  if (joint_.tie(id) == JointGraph::TieKind::kCarry) {
    const auto terms = sums_.terms.find(id);
    return terms == sums_.terms.end() ? std::vector<ValueId>() : terms->second;
  }
  if (joint_.is_tie(id))
    return sums_.ties[id] ? std::vector{node.inputs[0]} : std::vector<ValueId>();
  return row(node.op).linear == Linear::kNo ? std::vector<ValueId>() : node.inputs;
}

bool SumTerms::gives_term(ValueId value, int axis, const Known& known) const {
  const NodeId id = makers_[value];
  if (id == kNone || reads_[value] != 1) return false;
  const Node& node = graph_.nodes[id];
  const int index = cut_of(id, axis);
  if (index == NodeCut::kWhole) return false;
  if (index >= 0) {
    const Factor& factor = factors_[id][static_cast<size_t>(index)];
    return factor.kind == FactorKind::kReduce && factor.result_dims[value - node.first_result] < 0;
  }
  const std::vector<ValueId> behind = terms_behind(value, axis);
  const auto is_term = [&](ValueId term) { return known.at(term); };
  if (behind.empty()) return false;
  return joint_.is_tie(id) ? std::ranges::all_of(behind, is_term)
                           : passes_sums(graph_, id, is_term);
}

}  // namespace gangway
