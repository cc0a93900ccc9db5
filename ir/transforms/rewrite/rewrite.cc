#include "ir/transforms/rewrite/rewrite.h"

#include "runtime/base/error.h"

namespace gangway {

Rewriter::Rewriter(const Function& source) : source_(source), map_(source.types.size(), kNone) {
  target_.name = source.name;
  target_.mesh = source.mesh;
  target_.local = source.local;
  target_.parameters = source.parameters;
  target_.result_names = source.result_names;
  target_.locs = source.locs;
  for (ValueId id = 0; id < source.parameters.size(); ++id) {
    target_.types.push_back(source.types[id]);
    map_[id] = id;
  }
}

ValueId Rewriter::append(Node node, const std::vector<Type>& types, NodeInfo info) {
  node.first_result = target_.value_count();
  node.results = static_cast<uint32_t>(types.size());
  target_.types.insert(target_.types.end(), types.begin(), types.end());
  ValueId first = node.first_result;
  target_.nodes.push_back(std::move(node));
  target_.infos.push_back(info);
  return first;
}

void Rewriter::copy(NodeId id) { copy(source_, id, map_, source_.infos[id]); }

void Rewriter::copy(const Function& from, NodeId id, std::vector<ValueId>& now, NodeInfo info) {
  const Node& old = from.nodes[id];
  Node node = old;
  for (ValueId& input : node.inputs) {
    GW_ASSERT(now[input] != kNone, "operand %", input, " of %", old.first_result,
              " is not there yet");
    input = now[input];
  }
  auto begin = from.types.begin() + old.first_result;
  std::vector<Type> types(begin, begin + old.results);
  ValueId first = append(std::move(node), types, info);
  for (uint32_t r = 0; r < old.results; ++r) now[old.first_result + r] = first + r;
}

Function Rewriter::finish() {
  for (ValueId result : source_.results) {
    GW_ASSERT(map_[result] != kNone, "result %", result, " was lost");
    target_.results.push_back(map_[result]);
  }
  return std::move(target_);
}

std::vector<uint32_t> use_counts(const Function& function) {
  std::vector<uint32_t> uses(function.types.size(), 0);
  for (const Node& node : function.nodes) {
    for (ValueId input : node.inputs) ++uses[input];
  }
  for (ValueId result : function.results) ++uses[result];
  return uses;
}

}  // namespace gangway
