#include "ir/graph/program.h"

#include <algorithm>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

bool same_node(const ProgramNode& a, const ProgramNode& b) {
  return a.kind == b.kind && a.name == b.name && a.slice == b.slice && a.function == b.function &&
         a.inputs == b.inputs && a.updates == b.updates && a.types == b.types &&
         a.placements == b.placements && a.attrs == b.attrs && a.stacked == b.stacked &&
         a.firing == b.firing;
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

std::string layer_name(std::string_view state, const StackedLayers& stacked, int64_t row) {
  size_t at = state.size();  // Offset of the tail, which begins with its dot.
  for (uint32_t i = 0; i < stacked.name_tail && at > 0; ++i) {
    const size_t dot = state.rfind('.', at - 1);
    at = dot == std::string_view::npos ? 0 : dot;
  }
  const std::string_view tail = state.substr(at);
  std::string_view front = state.substr(0, at);
  if (!stacked.base.empty()) {
    const size_t dot = front.rfind('.');
    front = front.substr(0, dot == std::string_view::npos ? 0 : dot + 1);
  }
  return cat(front, stacked.base, ".", stacked.first + row, tail);
}

uint32_t Program::find(NodeKind kind, std::string_view node_name) const {
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].kind == kind && nodes[id].name == node_name) return id;
  }
  return kNone;
}

std::string to_string(const Numerics& numerics) {
  const auto text = [](bool chosen) { return chosen ? "true" : "false"; };
  std::string all;
  if (numerics.deterministic) all += cat(" deterministic ", text(*numerics.deterministic));
  if (numerics.allow_tf32) all += cat(" allow_tf32 ", text(true));
  return all;
}

bool same_graph(const Program& a, const Program& b) {
  if (a.name != b.name || a.finite_output != b.finite_output || a.numerics != b.numerics)
    return false;
  return a.slices == b.slices && std::ranges::equal(a.functions, b.functions, same_function) &&
         std::ranges::equal(a.nodes, b.nodes, same_node);
}

}  // namespace gangway
