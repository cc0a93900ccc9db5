#include "ir/graph/node_facts.h"

#include <algorithm>

namespace gangway {
namespace {

// The verifier bounds how many entries there are, not how deep they are nested.
constexpr int kScopesMax = 64;

}  // namespace

Cost cost_of(const Function& function, NodeId id) {
  const Node& node = function.nodes[id];
  const std::vector<Type> inputs = input_types(function, node);
  const OpRow& facts = row(node.op);
  return facts.cost == nullptr ? Cost{}
                               : facts.cost({node.op, inputs, node.attrs, node.body.get()});
}

Cost cost_of(const Function& function) {
  Cost total;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Cost one = cost_of(function, id);
    total.flops += one.flops;
    total.bytes += one.bytes;
  }
  return total;
}

std::vector<std::string> scopes_of(const Function& function, NodeId id) {
  std::vector<std::string> names;
  if (id >= function.infos.size()) return names;
  uint32_t loc = function.infos[id].loc;
  for (int depth = 0; loc < function.locs.size() && depth < kScopesMax; ++depth) {
    const LocEntry& entry = function.locs[loc];
    if (!entry.scope.empty()) names.push_back(entry.scope);
    loc = entry.parent;
  }
  std::ranges::reverse(names);
  return names;
}

}  // namespace gangway
