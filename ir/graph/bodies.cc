#include "ir/graph/bodies.h"

#include <algorithm>
#include <limits>

namespace gangway {

void BodyTable::add(const Function& function) {
  for (const Node& node : function.nodes) {
    if (node.body == nullptr || index_.contains(node.body.get())) continue;
    add(*node.body);
    if (!shares_body(node.op)) continue;
    index_.emplace(node.body.get(), size());
    bodies_.push_back(node.body.get());
  }
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
