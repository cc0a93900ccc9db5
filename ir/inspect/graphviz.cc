#include "ir/inspect/graphviz.h"

#include <map>
#include <set>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/inspect/dot_text.h"
#include "ir/inspect/function_dot.h"
#include "ir/inspect/name_groups.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/loc.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

using namespace internal;

std::string begin(const std::string& name) {
  return cat("digraph ", dot_label({name}),
             " {\n  nodesep=0.2;\n  node [shape=box, fontname=\"monospace\"];\n");
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

// The program's own nodes, its states folded by their names.
class ProgramDot {
 public:
  ProgramDot(const Program& program, std::string& out) : p_(program), out_(out) {}

  void run() {
    draw_states();
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) {
      if (p_.nodes[id].kind != NodeKind::kState) draw_node(id);
    }
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) add_edges(id);
    edges_.write(out_);
  }

 private:
  // Draws the states of a slice together.
  void draw_states() {
    std::map<uint32_t, std::vector<uint32_t>> by_slice;
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) {
      box_of_.push_back(cat("p", id));
      if (p_.nodes[id].kind == NodeKind::kState) by_slice[p_.nodes[id].slice].push_back(id);
    }
    for (const auto& [slice, states] : by_slice) {
      std::vector<std::string> names;
      for (const uint32_t id : states) names.push_back(p_.nodes[id].name);
      for (const NameGroup& group : name_groups(names, kDotNamesMax)) {
        const uint32_t first = states[group.members[0]];
        int64_t bytes = 0;
        for (const size_t member : group.members) {
          box_of_[states[member]] = cat("p", first);
          bytes += p_.nodes[states[member]].types[0].bytes();
        }
        if (group.members.size() == 1) {
          draw_node(first);
          continue;
        }
        draw(first,
             {group.name, "on " + p_.slices[slice].name,
              cat(group.members.size(), " states, ", format_bytes(static_cast<uint64_t>(bytes)))});
      }
    }
  }

  void draw_node(uint32_t id) {
    const ProgramNode& node = p_.nodes[id];
    std::vector<std::string> lines = {cat(to_string(node.kind), " ", node.name),
                                      "on " + p_.slices[node.slice].name};
    // A call may have thousands of results; its function shows them.
    for (size_t r = 0; r < node.types.size() && node.kind != NodeKind::kCall; ++r) {
      lines.push_back(to_string(node.types[r]));
      if (!node.placements[r].empty()) lines.back() += " " + print_placements(node.placements[r]);
    }
    if (node.kind == NodeKind::kCall)
      lines.push_back(dot_cost(cost_of(*p_.functions[node.function])));
    if (node.stacked) {
      lines.push_back(
          cat(node.stacked->count, " layers from ", layer_name(node.name, *node.stacked, 0)));
    }
    if (!node.loc.file.empty())
      lines.push_back(to_string(Loc{node.loc.file.c_str(), node.loc.line}));
    draw(id, lines);
  }
  void draw(uint32_t id, const std::vector<std::string>& lines) {
    out_ += cat("  p", id, " [label=", dot_label(lines), ", ", style_of(p_.nodes[id].kind), "];\n");
  }

  void add_edges(uint32_t id) {
    const ProgramNode& node = p_.nodes[id];
    for (const Edge& edge : node.inputs) edges_.add(box_of_[edge.node], box_of_[id]);
    for (const StateUpdate& update : node.updates)
      edges_.add(box_of_[id], box_of_[update.state], "style=dashed, constraint=false");
  }

  const Program& p_;
  std::string& out_;
  std::vector<std::string> box_of_;  // Indexed by node.
  EdgeList edges_;
};

// A function in a box of its own.
void write_cluster(const Function& function, const std::string& what, const std::string& prefix,
                   std::string& out) {
  out +=
      cat("  subgraph cluster_", prefix, " {\n  label=", dot_label({what, function.name}), ";\n");
  write_function_dot(function, prefix, out);
  out += "  }\n";
}

// How often the nodes of functions that are drawn run a body.
using Uses = std::map<const Function*, std::map<int64_t, size_t>>;
void count_uses(const Function& function, Uses& uses) {
  for (const Node& node : function.nodes) {
    if (shares_body(node.op)) ++uses[node.body.get()][ScanLayout(node).length];
  }
}

// "scan of 3, 2 calls"
std::string uses_text(const std::map<int64_t, size_t>& uses) {
  std::string text;
  for (const auto& [length, count] : uses) {
    if (!text.empty()) text += ", ";
    if (length == 1) {
      text += cat(count, count == 1 ? " call" : " calls");
    } else {
      text += cat(count == 1 ? "" : cat(count, " times a "), "scan of ", length);
    }
  }
  return text;
}

void write_bodies(const BodyTable& bodies, Uses uses, std::string& out) {
  for (uint32_t i = 0; i < bodies.size(); ++i) count_uses(bodies[i], uses);
  for (uint32_t i = 0; i < bodies.size(); ++i)
    write_cluster(bodies[i], "body: " + uses_text(uses[&bodies[i]]), cat("b", i, "_"), out);
}

}  // namespace

std::string to_dot(const Function& function) {
  std::string out = begin(function.name);
  write_function_dot(function, "", out);
  BodyTable bodies;
  bodies.add(function);
  Uses uses;
  count_uses(function, uses);
  write_bodies(bodies, uses, out);
  return out + "}\n";
}

std::string to_dot(const Program& program) {
  std::string out = begin(program.name);
  ProgramDot(program, out).run();
  std::set<uint32_t> called;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kState && node.function != kNone) called.insert(node.function);
  }
  BodyTable bodies;
  Uses uses;
  for (const uint32_t i : called) {
    write_cluster(*program.functions[i], "function", cat("f", i, "_"), out);
    bodies.add(*program.functions[i]);
    count_uses(*program.functions[i], uses);
  }
  write_bodies(bodies, uses, out);
  return out + "}\n";
}

}  // namespace gangway
