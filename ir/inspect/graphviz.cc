#include "ir/inspect/graphviz.h"

#include <map>

#include "ir/graph/bodies.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/loc.h"

namespace gangway {
namespace {

using namespace internal;

// Lines of a label, each escaped for DOT: backslash and quote; other control characters are blanks.
std::string label(const std::vector<std::string>& lines) {
  std::string text = "\"";
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (text.size() > 1) text += "\\n";
    for (char c : line) {
      if (c == '"' || c == '\\') text += '\\';
      text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return text + "\"";
}

// Writes one function; `prefix` keeps the names of several functions apart.
class FunctionDot {
 public:
  FunctionDot(const Function& function, std::string prefix, std::string& out)
      : f_(function), prefix_(std::move(prefix)), out_(out), producers_(producers(function)) {}

  void run() {
    for (ValueId id = 0; id < f_.parameters.size(); ++id) {
      box(cat(prefix_, "v", id), {f_.parameters[id].name, type(id)}, "shape=ellipse");
    }
    Scope root;
    for (NodeId id = 0; id < f_.nodes.size(); ++id) scope_of(root, id).nodes.push_back(id);
    write(root, "  ");
    for (NodeId id = 0; id < f_.nodes.size(); ++id) {
      for (ValueId input : f_.nodes[id].inputs) edge(name_of(input), cat(prefix_, "n", id));
    }
    for (size_t i = 0; i < f_.results.size(); ++i) {
      std::string result = cat(prefix_, "r", i);
      box(result, {f_.result_names[i]}, "shape=ellipse, style=bold");
      edge(name_of(f_.results[i]), result);
    }
  }

 private:
  struct Scope {
    std::map<std::string, Scope> inner;
    std::vector<NodeId> nodes;
  };

  // Outermost scope first.
  std::vector<std::string> scopes(NodeId id) const {
    std::vector<std::string> names;
    uint32_t loc = f_.infos[id].loc;
    for (int depth = 0; loc != kNone && depth < 64; ++depth, loc = f_.locs[loc].parent) {
      if (!f_.locs[loc].scope.empty()) names.insert(names.begin(), f_.locs[loc].scope);
    }
    return names;
  }

  Scope& scope_of(Scope& root, NodeId id) const {
    Scope* scope = &root;
    for (const std::string& name : scopes(id)) scope = &scope->inner[name];
    return *scope;
  }

  void write(const Scope& scope, const std::string& indent) {
    for (const auto& [name, inner] : scope.inner) {
      out_ += cat(indent, "subgraph cluster_", prefix_, clusters_++, " {\n", indent,
                  "  label=", label({name}), ";\n");
      write(inner, indent + "  ");
      out_ += indent + "}\n";
    }
    for (NodeId id : scope.nodes) write_node(id, indent);
  }

  void write_node(NodeId id, const std::string& indent) {
    const Node& node = f_.nodes[id];
    std::vector<std::string> lines = {cat("%", node.first_result, " ", to_string(node.op))};
    if (shares_body(node.op)) lines[0] += " of " + node.body->name;
    for (uint32_t r = 0; r < node.results; ++r) lines.push_back(type(node.first_result + r));
    lines.push_back(line_of(f_, id));
    out_ += cat(indent, prefix_, "n", id, " [label=", label(lines),
                node.region != 0 ? ", style=dashed" : "", "];\n");
  }

  std::string type(ValueId id) const {
    std::string text = to_string(f_.types[id]);
    if (!f_.shardings.empty()) text += " " + to_string(f_.mesh, f_.shardings[id]);
    return text;
  }

  std::string name_of(ValueId id) const {
    return producers_[id] == kNone ? cat(prefix_, "v", id) : cat(prefix_, "n", producers_[id]);
  }
  void box(const std::string& name, const std::vector<std::string>& lines, const char* style) {
    out_ += cat("  ", name, " [label=", label(lines), ", ", style, "];\n");
  }
  void edge(const std::string& from, const std::string& to) {
    out_ += cat("  ", from, " -> ", to, ";\n");
  }

  const Function& f_;
  std::string prefix_;
  std::string& out_;
  std::vector<NodeId> producers_;
  int clusters_ = 0;
};

std::string begin(const std::string& name) {
  return cat("digraph ", label({name}), " {\n  node [shape=box, fontname=\"monospace\"];\n");
}

const char* style_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::kState: return "shape=cylinder";
    case NodeKind::kInput:
    case NodeKind::kSource:
    case NodeKind::kOutput: return "shape=ellipse";
    case NodeKind::kTransfer: return "shape=cds";
    case NodeKind::kCall: return "shape=box, style=bold";
    case NodeKind::kIf:
    case NodeKind::kWhile: return "shape=diamond";
  }
  return "shape=box";
}

void write_node(const Program& program, uint32_t id, std::string& out) {
  const ProgramNode& node = program.nodes[id];
  std::vector<std::string> lines = {cat(to_string(node.kind), " ", node.name),
                                    "on " + program.slices[node.slice].name};
  // A call may have thousands of results; its function shows them.
  for (size_t r = 0; r < node.types.size() && node.kind != NodeKind::kCall; ++r) {
    lines.push_back(to_string(node.types[r]));
    if (!node.placements[r].empty()) lines.back() += " " + print_placements(node.placements[r]);
  }
  if (node.stacked) {
    lines.push_back(
        cat(node.stacked->count, " layers from ", layer_name(node.name, *node.stacked, 0)));
  }
  if (!node.loc.file.empty()) lines.push_back(to_string(Loc{node.loc.file.c_str(), node.loc.line}));
  out += cat("  p", id, " [label=", label(lines), ", ", style_of(node.kind), "];\n");
  for (const Edge& edge : node.inputs) out += cat("  p", edge.node, " -> p", id, ";\n");
  for (const StateUpdate& update : node.updates) {
    out += cat("  p", id, " -> p", update.state, " [style=dashed, constraint=false];\n");
  }
}

// A function in a box of its own.
void write_cluster(const Function& function, const std::string& what, const std::string& prefix,
                   std::string& out) {
  out += cat("  subgraph cluster_", prefix, " {\n  label=", label({what + function.name}), ";\n");
  FunctionDot(function, prefix, out).run();
  out += "  }\n";
}

void write_bodies(const BodyTable& bodies, std::string& out) {
  for (uint32_t i = 0; i < bodies.size(); ++i)
    write_cluster(bodies[i], "body ", cat("b", i, "_"), out);
}

}  // namespace

std::string to_dot(const Function& function) {
  std::string out = begin(function.name);
  FunctionDot(function, "", out).run();
  BodyTable bodies;
  bodies.add(function);
  write_bodies(bodies, out);
  return out + "}\n";
}

std::string to_dot(const Program& program) {
  std::string out = begin(program.name);
  for (uint32_t id = 0; id < program.nodes.size(); ++id) write_node(program, id, out);
  BodyTable bodies;
  for (size_t i = 0; i < program.functions.size(); ++i) {
    write_cluster(*program.functions[i], "function ", cat("f", i, "_"), out);
    bodies.add(*program.functions[i]);
  }
  write_bodies(bodies, out);
  return out + "}\n";
}

}  // namespace gangway
