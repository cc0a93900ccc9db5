#include <cmath>

#include "ir/inspect/graphviz.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/loc.h"

namespace gangway {
namespace {

using namespace internal;

// "[a, b]" of what print gives for each item.
template <class Items, class Print>
std::string list(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + print(item);
  return cat("[", text, "]");
}

template <class Print>
std::string numbered(size_t count, Print print) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",\n") + print(i);
  return cat("[\n", text, "\n]");
}

std::string attr_value(const AttrValue& value) {
  const double* real = std::get_if<double>(&value);
  bool as_text = (real != nullptr && !std::isfinite(*real)) || kind_of(value) == AttrKind::kDType;
  return as_text ? quote(print_attr(value)) : print_attr(value);
}

std::string attrs(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs) {
    text += cat(text.empty() ? "" : ", ", quote(name), ": ", attr_value(value));
  }
  return cat("{", text, "}");
}

std::string mesh(const Mesh& mesh) {
  return list(mesh.axes, [](const MeshAxis& axis) {
    return cat("{\"name\": ", quote(axis.name), ", \"size\": ", axis.size, "}");
  });
}

std::string placements(const AxisPlacements& placements) {
  std::string text;
  for (const auto& [axis, placement] : placements) {
    text += cat(text.empty() ? "" : ", ", quote(axis), ": ", quote(to_string(placement)));
  }
  return cat("{", text, "}");
}

std::string sharding(const Function& f, ValueId id) {
  if (f.shardings.empty()) return "null";
  return list(f.shardings[id], [](const Placement& p) { return quote(to_string(p)); });
}

std::string result(const Function& f, ValueId id) {
  return cat("{\"id\": ", id, ", \"type\": ", quote(to_string(f.types[id])),
             ", \"sharding\": ", sharding(f, id), "}");
}

std::string node(const Function& f, NodeId id) {
  const Node& node = f.nodes[id];
  std::vector<ValueId> results(node.results);
  for (uint32_t r = 0; r < node.results; ++r) results[r] = node.first_result + r;
  std::string text =
      cat("{\"id\": ", id, ", \"op\": ", quote(to_string(node.op)),
          ", \"inputs\": ", list(node.inputs, [](ValueId input) { return std::to_string(input); }),
          ", \"attrs\": ", attrs(node.attrs), ", \"region\": ", node.region);
  text += cat(", \"where\": ", quote(where(f, id)), ", \"line\": ", quote(line_of(f, id)),
              ", \"results\": ", list(results, [&](ValueId value) { return result(f, value); }));
  if (node.body != nullptr) text += ", \"body\": " + to_json(*node.body);
  return text + "}";
}

std::string parameter(const Function& f, ValueId id) {
  const Parameter& parameter = f.parameters[id];
  return cat("{\"id\": ", id, ", \"name\": ", quote(parameter.name),
             ", \"type\": ", quote(to_string(f.types[id])),
             ", \"placements\": ", placements(parameter.placements),
             ", \"sharding\": ", sharding(f, id), "}");
}

std::string node(const Program& p, uint32_t id) {
  const ProgramNode& node = p.nodes[id];
  std::string text = cat("{\"id\": ", id, ", \"kind\": ", quote(to_string(node.kind)),
                         ", \"name\": ", quote(node.name), ", \"slice\": ", node.slice);
  if (node.function != kNone) text += cat(", \"function\": ", node.function);
  text += cat(", \"inputs\": ", list(node.inputs, [](const Edge& edge) {
                return cat("{\"node\": ", edge.node, ", \"result\": ", edge.result, "}");
              }));
  text += cat(", \"updates\": ", list(node.updates, [](const StateUpdate& update) {
                return cat("{\"result\": ", update.result, ", \"state\": ", update.state, "}");
              }));
  text += cat(
      ", \"types\": ", list(node.types, [](const Type& type) { return quote(to_string(type)); }),
      ", \"placements\": ", list(node.placements, placements), ", \"attrs\": ", attrs(node.attrs));
  bool known = !node.loc.file.empty();
  std::string line = known ? to_string(Loc{node.loc.file.c_str(), node.loc.line}) : "";
  return cat(text, ", \"line\": ", quote(line), "}");
}

}  // namespace

std::string to_json(const Function& f) {
  return cat("{\"name\": ", quote(f.name), ", \"mesh\": ", mesh(f.mesh),
             ", \"local\": ", f.local ? "true" : "false", ", \"parameters\": ",
             numbered(f.parameters.size(), [&](uint32_t id) { return parameter(f, id); }),
             ", \"nodes\": ", numbered(f.nodes.size(), [&](uint32_t id) { return node(f, id); }),
             ", \"results\": ",
             numbered(f.results.size(),
                      [&](uint32_t i) {
                        return cat("{\"id\": ", f.results[i],
                                   ", \"name\": ", quote(f.result_names[i]), "}");
                      }),
             "}\n");
}

std::string to_json(const Program& p) {
  return cat(
      "{\"name\": ", quote(p.name), ", \"finite\": ", quote(p.finite_output), ", \"slices\": ",
      list(p.slices,
           [](const ProgramSlice& slice) {
             return cat("{\"name\": ", quote(slice.name), ", \"mesh\": ", mesh(slice.mesh), "}");
           }),
      ", \"functions\": ",
      list(p.functions, [](const auto& function) { return to_json(*function); }),
      ", \"nodes\": ", numbered(p.nodes.size(), [&](uint32_t id) { return node(p, id); }), "}\n");
}

}  // namespace gangway
