#include "ir/graph/function.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "ir/graph/node_facts.h"
#include "runtime/base/cat.h"

namespace gangway {

std::vector<Type> input_types(const Function& function, const Node& node) {
  std::vector<Type> types;
  types.reserve(node.inputs.size());
  for (ValueId input : node.inputs) types.push_back(function.types[input]);
  return types;
}

std::vector<NodeId> producers(const Function& function) {
  std::vector<NodeId> of(function.types.size(), kNone);
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    for (uint32_t r = 0; r < node.results; ++r) of[node.first_result + r] = id;
  }
  return of;
}

std::vector<std::vector<ValueReader>> readers(const Function& function) {
  std::vector<std::vector<ValueReader>> of(function.types.size());
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const std::vector<ValueId>& inputs = function.nodes[id].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) of[inputs[i]].push_back({id, i});
  }
  for (ValueId result : function.results) of[result].push_back({});
  return of;
}

bool is_filled_with(const Node& node, double value) {
  return node.op == Op::constant && node.attrs.real("value") == value;
}

bool any_result(const std::vector<bool>& flags, const Node& node) {
  const auto first = flags.begin() + node.first_result;
  return std::find(first, first + node.results, true) != first + node.results;
}

namespace {

// Bodies that many nodes name are compared once.
class Comparison {
 public:
  bool same(const Function& a, const Function& b) {
    if (a.name != b.name || a.mesh != b.mesh || a.local != b.local) return false;
    if (a.types != b.types || a.results != b.results || a.result_names != b.result_names)
      return false;
    if (a.shardings != b.shardings || a.parameters != b.parameters) return false;
    return std::ranges::equal(
        a.nodes, b.nodes, [this](const Node& one, const Node& other) { return same(one, other); });
  }

 private:
  bool same(const Node& a, const Node& b) {
    if (a.op != b.op || a.inputs != b.inputs || a.attrs != b.attrs) return false;
    if (a.first_result != b.first_result || a.results != b.results || a.region != b.region)
      return false;
    if (a.body == b.body) return true;
    if (a.body == nullptr || b.body == nullptr) return false;
    const std::pair key(a.body.get(), b.body.get());
    if (equal_.contains(key)) return true;
    const bool equal = same(*a.body, *b.body);
    if (equal) equal_.insert(key);
    return equal;
  }

  std::set<std::pair<const Function*, const Function*>> equal_;
};

std::string line_of_entry(const LocEntry& entry) {
  std::string file = entry.file.substr(entry.file.rfind('/') + 1);
  return file.empty() ? "" : cat(file, ":", entry.line);
}

}  // namespace

bool same_graph(const Function& a, const Function& b) { return Comparison().same(a, b); }

std::string line_of(const Function& function, NodeId node) {
  if (node >= function.infos.size()) return {};
  uint32_t loc = function.infos[node].loc;
  return loc < function.locs.size() ? line_of_entry(function.locs[loc]) : std::string();
}

std::string where(const Function& function, NodeId node) {
  std::string text = line_of(function, node);
  if (text.empty()) return "unknown";
  for (const std::string& scope : std::views::reverse(scopes_of(function, node)))
    text += " in " + scope;
  return text;
}

std::string comment_of(const Function& function, NodeId node) {
  if (node >= function.infos.size() || function.infos[node].loc == kNone) return "";
  std::string place = where(function, node);
  std::ranges::replace_if(place, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return "  // " + place;
}

}  // namespace gangway
