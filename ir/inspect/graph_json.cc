#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/inspect/collectives.h"
#include "ir/inspect/graphviz.h"
#include "ir/text/print_internal.h"
#include "runtime/base/loc.h"

namespace gangway {
namespace {

using Json = nlohmann::ordered_json;

template <class Items, class Print>
Json list(const Items& items, Print print) {
  Json all = Json::array();
  for (const auto& item : items) all.push_back(print(item));
  return all;
}

// The list of the results of print for 0 ... count - 1.
template <class Print>
Json numbered(size_t count, Print print) {
  Json all = Json::array();
  for (uint32_t i = 0; i < count; ++i) all.push_back(print(i));
  return all;
}

Json attr_value(const AttrValue& value) {
  const double* real = std::get_if<double>(&value);
  if ((real != nullptr && !std::isfinite(*real)) || kind_of(value) == AttrKind::kDType)
    return internal::print_attr(value);
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<decltype(v), const DType&>) {
          return to_string(v);
        } else {
          return v;
        }
      },
      value);
}

Json attrs(const Attrs& attrs) {
  Json all = Json::object();
  for (const auto& [name, value] : attrs) all[name] = attr_value(value);
  return all;
}

Json mesh(const Mesh& mesh) {
  return list(mesh.axes,
              [](const MeshAxis& axis) { return Json{{"name", axis.name}, {"size", axis.size}}; });
}

Json placements(const AxisPlacements& placements) {
  Json all = Json::object();
  for (const auto& [axis, placement] : placements) all[axis] = to_string(placement);
  return all;
}

Json sharding(const Function& f, ValueId id) {
  if (f.shardings.empty()) return nullptr;
  return list(f.shardings[id], [](const Placement& p) { return to_string(p); });
}

Json cost(const Cost& cost) { return {{"flops", cost.flops}, {"bytes", cost.bytes}}; }

const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::kUser: return "user";
    case Reason::kGradient: return "gradient";
    case Reason::kRematerialize: return "rematerialize";
    case Reason::kPartition: return "partition";
    case Reason::kFuse: return "fuse";
    case Reason::kDecompose: return "decompose";
  }
  return "user";
}

Json collective(const CollectiveUse& use) {
  return {{"axes", use.axes},
          {"members", use.members},
          {"bytes", use.bytes},
          {"sent_bytes", use.sent_bytes()}};
}

Json result(const Function& f, ValueId value) {
  return {{"id", value},
          {"type", to_string(f.types[value])},
          {"sharding", sharding(f, value)},
          {"bytes", f.types[value].bytes()}};
}

Json graph(const Function& f, const BodyTable& bodies);

Json node(const Function& f, NodeId id, const BodyTable& bodies) {
  const Node& node = f.nodes[id];
  Json json = {{"id", id},
               {"op", to_string(node.op)},
               {"inputs", node.inputs},
               {"attrs", attrs(node.attrs)},
               {"region", node.region},
               {"where", where(f, id)},
               {"line", line_of(f, id)},
               {"scopes", scopes_of(f, id)},
               {"reason", name_of(id < f.infos.size() ? f.infos[id].reason : Reason::kUser)},
               {"cost", cost(cost_of(f, id))},
               {"results", numbered(node.results,
                                    [&](uint32_t r) { return result(f, node.first_result + r); })}};
  if (row(node.op).repeats_body) json["trip_count"] = ScanLayout(node).length;
  if (f.local && row(node.op).meets) json["collective"] = collective(collective_of(f, id));
  if (node.body == nullptr) return json;
  if (shares_body(node.op)) {
    json["body"] = bodies.at(node.body.get());
  } else {
    json["body"] = graph(*node.body, bodies);
  }
  return json;
}

Json parameter(const Function& f, ValueId id) {
  const Parameter& parameter = f.parameters[id];
  return {{"id", id},
          {"name", parameter.name},
          {"type", to_string(f.types[id])},
          {"placements", placements(parameter.placements)},
          {"sharding", sharding(f, id)},
          {"bytes", f.types[id].bytes()}};
}

Json graph(const Function& f, const BodyTable& bodies) {
  const auto result = [&](uint32_t i) {
    return Json{{"id", f.results[i]}, {"name", f.result_names[i]}};
  };
  return {
      {"name", f.name},
      {"mesh", mesh(f.mesh)},
      {"local", f.local},
      {"cost", cost(cost_of(f))},
      {"parameters", numbered(f.parameters.size(), [&](uint32_t i) { return parameter(f, i); })},
      {"nodes", numbered(f.nodes.size(), [&](uint32_t i) { return node(f, i, bodies); })},
      {"results", numbered(f.results.size(), result)}};
}

Json node(const Program& p, uint32_t id) {
  const ProgramNode& node = p.nodes[id];
  Json json = {
      {"id", id}, {"kind", to_string(node.kind)}, {"name", node.name}, {"slice", node.slice}};
  if (node.function != kNone) json["function"] = node.function;
  json["inputs"] = list(node.inputs, [](const Edge& edge) {
    return Json{{"node", edge.node}, {"result", edge.result}};
  });
  json["updates"] = list(node.updates, [](const StateUpdate& update) {
    return Json{{"result", update.result}, {"state", update.state}};
  });
  json["types"] = list(node.types, [](const Type& type) { return to_string(type); });
  json["bytes"] = list(node.types, [](const Type& type) { return type.bytes(); });
  json["placements"] = list(node.placements, placements);
  json["attrs"] = attrs(node.attrs);
  if (node.stacked) {
    json["stacked"] = {{"first", node.stacked->first},
                       {"count", node.stacked->count},
                       {"first_name", layer_name(node.name, *node.stacked, 0)}};
  }
  const bool known = !node.loc.file.empty();
  json["line"] = known ? to_string(Loc{node.loc.file.c_str(), node.loc.line}) : "";
  return json;
}

// The bodies that scans and calls name, by the numbers with which they name them.
Json bodies_of(const BodyTable& bodies) {
  return numbered(bodies.size(), [&](uint32_t i) { return graph(bodies[i], bodies); });
}

Json graph(const Program& p) {
  BodyTable bodies;
  for (const auto& function : p.functions) bodies.add(*function);
  const auto slice = [](const ProgramSlice& s) {
    return Json{{"name", s.name}, {"mesh", mesh(s.mesh)}};
  };
  Json json = {{"version", kGraphJsonVersion}, {"name", p.name}, {"finite", p.finite_output}};
  if (p.numerics.deterministic) json["deterministic"] = *p.numerics.deterministic;
  if (p.numerics.allow_tf32) json["allow_tf32"] = true;
  json["slices"] = list(p.slices, slice);
  json["functions"] = list(p.functions, [&](const auto& f) { return graph(*f, bodies); });
  json["bodies"] = bodies_of(bodies);
  json["nodes"] = numbered(p.nodes.size(), [&](uint32_t i) { return node(p, i); });
  return json;
}

// A file's name may be of any bytes: what is not UTF-8 is replaced.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Function& f) {
  BodyTable bodies;
  bodies.add(f);
  Json json = graph(f, bodies);
  json["version"] = kGraphJsonVersion;
  json["bodies"] = bodies_of(bodies);
  return text_of(json);
}
std::string to_json(const Program& p) { return text_of(graph(p)); }

}  // namespace gangway
