#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/loc.h"

namespace gangway {
namespace {

using namespace internal;

class ProgramPrinter {
 public:
  ProgramPrinter(const Program& program, const PrintOptions& options)
      : p_(program), options_(options) {}

  std::string run() {
    text_ = "program " + print_function_name(p_.name);
    if (!p_.finite_output.empty()) text_ += " finite " + quote(p_.finite_output);
    text_ += to_string(p_.numerics);
    text_ += " {\n";
    for (const ProgramSlice& slice : p_.slices) {
      text_ += cat("  slice ", quote(slice.name), " mesh ", print_mesh(slice.mesh), "\n");
    }
    BodyTable bodies;
    for (const auto& function : p_.functions) {
      if (function != nullptr) bodies.add(*function);
    }
    if (bodies.size() > 0) text_ += "\n" + print_bodies(bodies, options_, "  ");
    for (const auto& function : p_.functions) {
      if (function != nullptr) text_ += "\n" + print_function(*function, options_, bodies, "  ");
    }
    if (!p_.nodes.empty()) text_ += "\n";
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) print_node(id, p_.nodes[id]);
    return text_ + "}\n";
  }
  std::string node(uint32_t id) {
    print_node(id, p_.nodes[id]);
    return text_;
  }

 private:
  void print_node(uint32_t id, const ProgramNode& node) {
    text_ += cat("  %", id, " = ", to_string(node.kind), " ", quote(node.name));
    if (node.slice != 0) {
      text_ += cat(" on ", node.slice < p_.slices.size() ? quote(p_.slices[node.slice].name) : "?");
    }
    if (node.function != kNone) {
      bool known = node.function < p_.functions.size() && p_.functions[node.function] != nullptr;
      text_ += cat(" ", known ? print_function_name(p_.functions[node.function]->name) : "@?");
    }
    print_edges(node);
    for (size_t r = 0; r < node.types.size(); ++r) {
      text_ += cat(r == 0 ? " -> " : ", ", print_type(node.types[r]));
      if (r < node.placements.size() && !node.placements[r].empty()) {
        text_ += " " + print_placements(node.placements[r]);
      }
    }
    if (node.stacked) {
      text_ += cat(" stacked(", node.stacked->first, ", ", node.stacked->count, ", ",
                   node.stacked->name_tail,
                   node.stacked->base.empty() ? "" : ", " + quote(node.stacked->base), ")");
    }
    if (node.attrs.size() > 0) text_ += " with " + print_attrs(node.attrs);
    print_updates(node);
    print_firing(node.firing);
    if (options_.locations && !node.loc.file.empty()) {
      text_ += "  // " + to_string(Loc{node.loc.file.c_str(), node.loc.line});
    }
    text_ += "\n";
  }

  void print_edges(const ProgramNode& node) {
    if (node.inputs.empty()) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      text_ += cat(i == 0 ? " (" : ", ", "%", edge.node);
      bool call = edge.node < p_.nodes.size() && p_.nodes[edge.node].kind == NodeKind::kCall;
      if (call || edge.result != 0) text_ += cat(".", edge.result);
      if (edge.version != 0) text_ += cat(" back ", edge.version);
    }
    text_ += ")";
  }

  void print_updates(const ProgramNode& node) {
    if (node.updates.empty()) return;
    text_ += " updates {";
    for (size_t i = 0; i < node.updates.size(); ++i) {
      const StateUpdate& update = node.updates[i];
      text_ += cat(i == 0 ? "" : ", ", "%", update.state, ": ", update.result);
    }
    text_ += "}";
  }

  void print_firing(const FiringRule& rule) {
    if (rule == FiringRule{}) return;
    text_ += cat(" firing ", to_string(rule.kind), "(", rule.low, ", ", rule.high, ")");
  }

  const Program& p_;
  const PrintOptions& options_;
  std::string text_;
};

}  // namespace

std::string internal::print_program_node(const Program& program, uint32_t id,
                                         const PrintOptions& options) {
  return ProgramPrinter(program, options).node(id);
}

std::string print(const Program& program, PrintOptions options) {
  return ProgramPrinter(program, options).run();
}

}  // namespace gangway
