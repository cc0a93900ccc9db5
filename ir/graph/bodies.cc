#include "ir/graph/bodies.h"

#include <algorithm>
#include <limits>
#include <set>

namespace gangway {
namespace {

Meeting first_meeting_in(const Function& function, std::set<const Function*>& seen) {
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    if (row(node.op).meets) return {&function, id};
    if (node.body == nullptr || !seen.insert(node.body.get()).second) continue;
    const Meeting found = first_meeting_in(*node.body, seen);
    if (found.function != nullptr) return found;
  }
  return {};
}

}  // namespace

std::vector<bool> ahead_nodes(const Function& body, const ScanLayout& layout) {
  std::vector<bool> ahead(body.nodes.size(), false);
  if (layout.ahead == 0) return ahead;
  std::vector<bool> needed(body.types.size(), false);
  for (size_t r = 0; r < body.results.size(); ++r) {
    if (r + layout.ahead < layout.carries || r >= layout.carries) needed[body.results[r]] = true;
  }
  for (auto id = static_cast<NodeId>(body.nodes.size()); id-- > 0;) {
    const Node& node = body.nodes[id];
    ahead[id] = !any_result(needed, node);
    for (ValueId input : node.inputs) needed[input] = needed[input] || !ahead[id];
  }
  return ahead;
}

void BodyTable::add(const Function& function) {
  for (const Node& node : function.nodes) {
    if (node.body == nullptr || index_.contains(node.body.get())) continue;
    add(*node.body);
    if (!shares_body(node.op)) continue;
    index_.emplace(node.body.get(), size());
    bodies_.push_back(node.body.get());
  }
}

Meeting first_meeting(const Function& function) {
  std::set<const Function*> seen;
  return first_meeting_in(function, seen);
}

BodySize BodySizes::of(const Function& function) {
  BodySize total{.depth = 0, .nodes = function.nodes.size()};
  for (const Node& node : function.nodes) {
    if (node.body == nullptr) continue;
    auto found = known_.find(node.body.get());
    if (found == known_.end()) found = known_.emplace(node.body.get(), of(*node.body)).first;
    total.depth = std::max(total.depth, found->second.depth + 1);
    const size_t room = std::numeric_limits<size_t>::max() - total.nodes;
    total.nodes += std::min(room, found->second.nodes);
  }
  return total;
}

}  // namespace gangway
