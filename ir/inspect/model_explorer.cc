#include "ir/inspect/model_explorer.h"

#include <map>
#include <nlohmann/json.hpp>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/inspect/collectives.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/loc.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

using namespace internal;
using Json = nlohmann::ordered_json;

// A result of a node of a graph.
struct Output {
  std::string node;
  uint32_t index = 0;
};

// "a/b" and the name of a group in it.
std::string inside(const std::string& group, std::string name) {
  for (char& c : name) {
    if (c == '/' || c == ';') c = '_';
  }
  if (name.empty()) name = "_";
  return group.empty() ? name : cat(group, "/", name);
}

void add_attr(Json& node, const std::string& key, const std::string& value) {
  if (!value.empty()) node["attrs"].push_back({{"key", key}, {"value", value}});
}

void add_cost(Json& node, const Cost& cost) {
  add_attr(node, "FLOPs", format_count(cost.flops));
  add_attr(node, "bytes read and written", format_bytes(static_cast<uint64_t>(cost.bytes)));
}

Json new_node(const std::string& id, const std::string& label, const std::string& group) {
  return {{"id", id},
          {"label", label},
          {"namespace", group},
          {"attrs", Json::array()},
          {"incomingEdges", Json::array()},
          {"outputsMetadata", Json::array()}};
}

void add_edge(Json& node, const Output& from) {
  Json& edges = node["incomingEdges"];
  edges.push_back({{"sourceNodeId", from.node},
                   {"sourceNodeOutputId", std::to_string(from.index)},
                   {"targetNodeInputId", std::to_string(edges.size())}});
}

void add_output(Json& node, const Type& type, const std::string& placed) {
  Json attrs = Json::array();
  attrs.push_back({{"key", "tensor_shape"}, {"value", to_string(type)}});
  if (!placed.empty()) attrs.push_back({{"key", "sharding"}, {"value", placed}});
  attrs.push_back({{"key", "bytes"}, {"value", std::to_string(type.bytes())}});
  Json& outputs = node["outputsMetadata"];
  outputs.push_back({{"id", std::to_string(outputs.size())}, {"attrs", attrs}});
}

std::string graph_name(const BodyTable& bodies, uint32_t body) {
  return cat("body ", body, ": ", bodies[body].name);
}

// Nodes of one function in a group of a graph.
class FunctionNodes {
 public:
  // `parameters`: where their values come from. Ids begin with `prefix`.
  FunctionNodes(const Function& function, const BodyTable& bodies, std::string prefix,
                std::string group, std::vector<Output> parameters)
      : f_(function),
        bodies_(bodies),
        prefix_(std::move(prefix)),
        group_(std::move(group)),
        sources_(std::move(parameters)) {}

  // Appends them; where the results come from.
  std::vector<Output> add_to(Json& nodes) {
    sources_.reserve(f_.value_count());
    for (NodeId id = 0; id < f_.nodes.size(); ++id) nodes.push_back(node(id));
    std::vector<Output> results;
    for (const ValueId result : f_.results) results.push_back(sources_[result]);
    return results;
  }

 private:
  Json node(NodeId id) {
    const Node& node = f_.nodes[id];
    std::string group = group_;
    for (const std::string& scope : scopes_of(f_, id)) group = inside(group, scope);
    const std::string name = cat(prefix_, "n", id);
    Json json = new_node(name, std::string(to_string(node.op)), group);
    describe(id, json);
    for (const ValueId input : node.inputs) add_edge(json, sources_[input]);
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      sources_.push_back({name, r});
      add_output(json, f_.types[value],
                 f_.shardings.empty() ? "" : to_string(f_.mesh, f_.shardings[value]));
    }
    return json;
  }

  void describe(NodeId id, Json& json) const {
    const Node& node = f_.nodes[id];
    for (const auto& [key, value] : node.attrs) add_attr(json, key, print_attr(value));
    add_attr(json, "line", line_of(f_, id));
    add_cost(json, cost_of(f_, id));
    if (node.region != 0) add_attr(json, "computed again in region", cat(node.region));
    if (row(node.op).repeats_body) add_attr(json, "trip count", cat(ScanLayout(node).length));
    if (f_.local && row(node.op).meets) {
      const CollectiveUse use = collective_of(f_, id);
      add_attr(json, "collective",
               cat(use.bytes, " bytes over ", use.axes, ", ", use.sent_bytes(), " sent by each of ",
                   use.members));
    }
    if (shares_body(node.op)) {
      json["label"] = cat(to_string(node.op), " of ", node.body->name);
      json["subgraphIds"] = {graph_name(bodies_, bodies_.at(node.body.get()))};
    }
  }

  const Function& f_;
  const BodyTable& bodies_;
  std::string prefix_, group_;
  std::vector<Output> sources_;  // Indexed by value.
};

// A function by itself, with its parameters and results.
Json function_graph(const std::string& id, const Function& function, const BodyTable& bodies) {
  Json nodes = Json::array();
  std::vector<Output> parameters;
  for (ValueId value = 0; value < function.parameters.size(); ++value) {
    const std::string name = cat("v", value);
    Json node = new_node(name, function.parameters[value].name, "parameters");
    add_output(
        node, function.types[value],
        function.shardings.empty() ? "" : to_string(function.mesh, function.shardings[value]));
    nodes.push_back(std::move(node));
    parameters.push_back({name, 0});
  }
  const std::vector<Output> results =
      FunctionNodes(function, bodies, "", "", std::move(parameters)).add_to(nodes);
  for (size_t i = 0; i < results.size(); ++i) {
    Json node = new_node(cat("r", i), function.result_names[i], "results");
    add_edge(node, results[i]);
    nodes.push_back(std::move(node));
  }
  return {{"id", id}, {"nodes", std::move(nodes)}};
}

class ProgramGraphs {
 public:
  explicit ProgramGraphs(const Program& program) : p_(program) {
    for (const ProgramNode& node : p_.nodes) {
      if (node.kind == NodeKind::kCall && uses_[node.function]++ == 0)
        bodies_.add(*p_.functions[node.function]);
    }
  }

  Json run() {
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) add_node(id);
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) add_updates(id);
    Json graphs = Json::array();
    graphs.push_back(
        {{"id", "program"}, {"nodes", std::move(nodes_)}, {"groupNodeAttributes", facts()}});
    for (const auto& [function, uses] : uses_) {
      if (uses > 1)
        graphs.push_back(function_graph(name_of(function), *p_.functions[function], bodies_));
    }
    for (uint32_t body = 0; body < bodies_.size(); ++body)
      graphs.push_back(function_graph(graph_name(bodies_, body), bodies_[body], bodies_));
    return {{"label", p_.name}, {"graphs", std::move(graphs)}};
  }

 private:
  std::string name_of(uint32_t function) const {
    return cat("function ", function, ": ", p_.functions[function]->name);
  }

  // Facts that the page shows about the whole program and about each slice.
  Json facts() const {
    Json facts = {{"", {{"program", p_.name}, {"finite output", p_.finite_output}}}};
    if (p_.numerics.deterministic)
      facts[""]["deterministic"] = *p_.numerics.deterministic ? "true" : "false";
    if (p_.numerics.allow_tf32) facts[""]["allow_tf32"] = "true";
    for (const ProgramSlice& slice : p_.slices)
      facts[inside("", slice.name)] = {{"mesh", to_string(slice.mesh)}};
    return facts;
  }

  void add_node(uint32_t id) {
    const ProgramNode& node = p_.nodes[id];
    const std::string group = inside("", p_.slices[node.slice].name);
    std::vector<Output> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(outputs_[edge.node][edge.result]);
    if (node.kind == NodeKind::kCall && uses_.at(node.function) == 1) {
      outputs_.push_back(FunctionNodes(*p_.functions[node.function], bodies_, cat("p", id, "."),
                                       inside(group, cat("call ", node.name)), std::move(inputs))
                             .add_to(nodes_));
      return;
    }
    const std::string name = cat("p", id);
    Json json = new_node(name, cat(to_string(node.kind), " ", node.name),
                         node.kind == NodeKind::kState ? group_of_state(group, node) : group);
    describe(node, json);
    for (const Output& input : inputs) add_edge(json, input);
    outputs_.emplace_back();
    for (uint32_t r = 0; r < node.types.size(); ++r) {
      add_output(json, node.types[r],
                 node.placements[r].empty() ? "" : print_placements(node.placements[r]));
      outputs_.back().push_back({name, r});
    }
    place_[id] = nodes_.size();
    nodes_.push_back(std::move(json));
  }

  // "params.layers.attn.q" lies in params/layers/attn.
  static std::string group_of_state(std::string group, const ProgramNode& node) {
    size_t at = 0;
    for (size_t dot; (dot = node.name.find('.', at)) != std::string::npos; at = dot + 1)
      group = inside(group, node.name.substr(at, dot - at));
    return group;
  }

  void describe(const ProgramNode& node, Json& json) const {
    for (const auto& [key, value] : node.attrs) add_attr(json, key, print_attr(value));
    if (!node.loc.file.empty())
      add_attr(json, "line", to_string(Loc{node.loc.file.c_str(), node.loc.line}));
    if (node.stacked) {
      add_attr(json, "layers",
               cat(node.stacked->count, " from ", layer_name(node.name, *node.stacked, 0)));
    }
    if (node.kind != NodeKind::kCall) return;
    add_cost(json, cost_of(*p_.functions[node.function]));
    json["subgraphIds"] = {name_of(node.function)};
  }

  // Adds a link to the state's attributes: an edge back to the state would turn the layout around.
  void add_updates(uint32_t id) {
    for (const StateUpdate& update : p_.nodes[id].updates) {
      nodes_[place_.at(update.state)]["attrs"].push_back(
          {{"key", "updated by"},
           {"value", {{"type", "node_ids"}, {"nodeIds", {outputs_[id][update.result].node}}}}});
    }
  }

  const Program& p_;
  std::map<uint32_t, int> uses_;  // Number of calls of each function.
  BodyTable bodies_;
  Json nodes_ = Json::array();
  std::vector<std::vector<Output>> outputs_;  // Indexed by node and result.
  std::map<uint32_t, size_t> place_;          // Index into nodes_, by node of the program.
};

}  // namespace

std::string to_model_explorer(const Program& program) {
  return ProgramGraphs(program).run().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gangway
