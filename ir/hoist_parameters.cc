#include "ir/hoist_parameters.h"

#include "runtime/base/error.h"

namespace gangway {

void hoist_parameters(Function& function, const std::vector<std::pair<ValueId, Parameter>>& late) {
  if (late.empty()) return;
  const std::vector<NodeId> makers = producers(function);
  std::vector<bool> dropped(function.nodes.size(), false);
  std::vector<ValueId> value_now(function.types.size(), kNone);
  std::vector<NodeId> node_now(function.nodes.size(), kNone);
  std::vector<Type> types(function.types.begin(),
                          function.types.begin() + static_cast<int>(function.parameters.size()));
  for (ValueId id = 0; id < types.size(); ++id) value_now[id] = id;
  for (const auto& [value, parameter] : late) {
    const Node& node = function.nodes[makers[value]];
    GW_ASSERT(node.inputs.empty() && node.results == 1);
    dropped[makers[value]] = true;
    value_now[value] = static_cast<ValueId>(types.size());
    types.push_back(function.types[value]);
    function.parameters.push_back(parameter);
  }
  std::vector<Node> nodes;
  std::vector<NodeInfo> infos;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    if (dropped[id]) continue;
    Node node = std::move(function.nodes[id]);
    for (ValueId& input : node.inputs) input = value_now[input];
    for (uint32_t r = 0; r < node.results; ++r) {
      value_now[node.first_result + r] = static_cast<ValueId>(types.size() + r);
    }
    auto first = function.types.begin() + node.first_result;
    node.first_result = static_cast<ValueId>(types.size());
    types.insert(types.end(), first, first + node.results);
    NodeInfo info = function.infos[id];
    if (info.origin != kNone) info.origin = node_now[info.origin];
    node_now[id] = static_cast<NodeId>(nodes.size());
    nodes.push_back(std::move(node));
    infos.push_back(info);
  }
  for (ValueId& result : function.results) result = value_now[result];
  function.types = std::move(types);
  function.nodes = std::move(nodes);
  function.infos = std::move(infos);
}

}  // namespace gangway
