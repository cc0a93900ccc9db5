#include "ir/graph/program.h"

namespace gangway {
namespace {

bool same_node(const ProgramNode& a, const ProgramNode& b) {
  return a.kind == b.kind && a.name == b.name && a.slice == b.slice && a.function == b.function &&
         a.inputs == b.inputs && a.updates == b.updates && a.types == b.types &&
         a.placements == b.placements && a.attrs == b.attrs && a.firing == b.firing;
}

bool same_function(const std::shared_ptr<const Function>& a,
                   const std::shared_ptr<const Function>& b) {
  return a == b || (a != nullptr && b != nullptr && same_graph(*a, *b));
}

}  // namespace

const char* to_string(NodeKind kind) {
  switch (kind) {
    case NodeKind::kState: return "state";
    case NodeKind::kInput: return "input";
    case NodeKind::kSource: return "source";
    case NodeKind::kCall: return "call";
    case NodeKind::kTransfer: return "transfer";
    case NodeKind::kOutput: return "output";
    case NodeKind::kIf: return "if";
    case NodeKind::kWhile: return "while";
  }
  return "unknown";
}

const char* to_string(FiringKind kind) {
  switch (kind) {
    case FiringKind::kAll: return "all";
    case FiringKind::kAny: return "any";
    case FiringKind::kQuorum: return "quorum";
    case FiringKind::kBounded: return "bounded";
  }
  return "unknown";
}

uint32_t Program::find(NodeKind kind, std::string_view node_name) const {
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].kind == kind && nodes[id].name == node_name) return id;
  }
  return kNone;
}

bool same_graph(const Program& a, const Program& b) {
  if (a.name != b.name || a.finite_output != b.finite_output) return false;
  if (a.slices != b.slices || a.functions.size() != b.functions.size()) return false;
  for (size_t i = 0; i < a.functions.size(); ++i) {
    if (!same_function(a.functions[i], b.functions[i])) return false;
  }
  if (a.nodes.size() != b.nodes.size()) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    if (!same_node(a.nodes[i], b.nodes[i])) return false;
  }
  return true;
}

}  // namespace gangway
