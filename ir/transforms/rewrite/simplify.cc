#include "ir/transforms/rewrite/simplify.h"

#include <map>
#include <tuple>

#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

bool is_identity(const Function& function, const Node& node) {
  if (node.op == Op::stop_gradient) return true;
  if (node.op == Op::constrain) return function.local;  // In the global view it says something.
  if (node.op != Op::reshape && node.op != Op::broadcast && node.op != Op::convert) return false;
  return function.types[node.inputs[0]] == function.types[node.first_result];
}

// Nodes whose result must not be shared: each is meant to run where it stands.
bool is_unique(Op op) { return op == Op::barrier || op == Op::timed || op == Op::custom_call; }

std::vector<bool> live_nodes(const Function& function) {
  std::vector<bool> wanted(function.types.size(), false);
  for (ValueId result : function.results) wanted[result] = true;
  std::vector<bool> live(function.nodes.size(), false);
  for (NodeId id = static_cast<NodeId>(function.nodes.size()); id-- > 0;) {
    const Node& node = function.nodes[id];
    for (uint32_t r = 0; r < node.results; ++r)
      live[id] = live[id] || wanted[node.first_result + r];
    if (!live[id]) continue;
    for (ValueId input : node.inputs) wanted[input] = true;
  }
  return live;
}

std::string attrs_key(const Attrs& attrs) {
  std::string key;
  for (const auto& [name, value] : attrs) {
    key += name + "=";
    std::visit(
        [&key](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            key += v;
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            for (int64_t i : v) key += std::to_string(i) + ",";
          } else {
            const char* bytes = reinterpret_cast<const char*>(&v);
            key.append(bytes, sizeof(v));
          }
        },
        value);
    key += ";";
  }
  return key;
}

}  // namespace

Function simplify(const Function& function) {
  std::vector<bool> live = live_nodes(function);
  Rewriter out(function);
  using Key = std::tuple<Op, std::vector<ValueId>, std::string>;
  std::map<Key, ValueId> seen;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    if (!live[id]) continue;
    if (is_identity(function, node)) {
      out.set(node.first_result, out.at(node.inputs[0]));
      continue;
    }
    if (is_unique(node.op) || node.body) {
      out.copy(id);
      continue;
    }
    std::vector<ValueId> inputs;
    inputs.reserve(node.inputs.size());
    for (ValueId input : node.inputs) inputs.push_back(out.at(input));
    auto [at, is_new] = seen.try_emplace({node.op, inputs, attrs_key(node.attrs)}, kNone);
    if (is_new) {
      out.copy(id);
      at->second = out.at(node.first_result);
    } else {
      for (uint32_t r = 0; r < node.results; ++r) out.set(node.first_result + r, at->second + r);
    }
  }
  return out.finish();
}

Function remove_dead(const Function& function, NodeId& commit_begin) {
  std::vector<bool> live = live_nodes(function);
  Rewriter out(function);
  NodeId begin = kNone;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    if (id == commit_begin) begin = static_cast<NodeId>(out.target().nodes.size());
    if (live[id]) out.copy(id);
  }
  commit_begin = begin == kNone ? static_cast<NodeId>(out.target().nodes.size()) : begin;
  return out.finish();
}

}  // namespace gangway
