#include "tools/page/made_of.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/node_facts.h"
#include "runtime/base/loc.h"

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

Json place_of(std::string_view op, const Function& f, NodeId id) {
  return {{"op", op}, {"line", line_of(f, id)}, {"scopes", scopes_of(f, id)}};
}

// Returns the ops that this op replaces, at the place of these ops.
std::vector<Op> replaced_by(Op op) {
  if (op == Op::cross_entropy_and_grad) return {Op::cross_entropy, Op::cross_entropy_grad};
  return {};
}

// Lists an op that a scope has several times in one line once, since it is one place.
Json made_of(const Function& f, NodeId id) {
  const Node& node = f.nodes[id];
  Json all = Json::array();
  const auto add = [&all](Json place) {
    for (const Json& known : all) {
      if (known == place) return;
    }
    all.push_back(std::move(place));
  };
  for (const Op op : replaced_by(node.op)) add(place_of(to_string(op), f, id));
  if (node.op == Op::fusion) {
    for (NodeId part = 0; part < node.body->nodes.size(); ++part)
      add(place_of(to_string(node.body->nodes[part].op), *node.body, part));
  }
  return all;
}

}  // namespace

void add_place(Json& json, const Function& function, NodeId node) {
  json.update(place_of(to_string(function.nodes[node].op), function, node));
  const Json parts = made_of(function, node);
  if (!parts.empty()) json["made_of"] = parts;
}

}  // namespace gangway::tool
