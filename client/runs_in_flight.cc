#include "client/runs_in_flight.h"

#include <algorithm>

namespace gangway::internal {
namespace {

constexpr int64_t kSmallBytes = 64 << 10;

// The controller verifies the program: here it may still be anything.
int64_t bytes_of(const Type& type) {
  return is_valid(type) ? std::min(type.bytes(), kSmallBytes + 1) : 0;
}

int64_t bytes_of(const Program& program, const Edge& edge) {
  if (edge.node >= program.nodes.size()) return 0;
  const std::vector<Type>& types = program.nodes[edge.node].types;
  return edge.result < types.size() ? bytes_of(types[edge.result]) : 0;
}

// Bytes of those values of a node that each run in flight has for itself, over all devices.
int64_t bytes_in_flight(const Program& program, const ProgramNode& node) {
  int64_t bytes = 0;
  switch (node.kind) {
    case NodeKind::kInput:
    case NodeKind::kSource:
    case NodeKind::kTransfer:
      for (const Type& type : node.types) bytes += bytes_of(type);
      break;
    case NodeKind::kOutput:
      for (const Edge& edge : node.inputs) bytes += bytes_of(program, edge);
      break;
    case NodeKind::kState:
    case NodeKind::kCall:
    case NodeKind::kIf:
    case NodeKind::kWhile: break;
  }
  return bytes;
}

}  // namespace

int64_t default_runs_in_flight(const Program& program) {
  int64_t bytes = 0;
  for (const ProgramNode& node : program.nodes) {
    bytes += std::min(bytes_in_flight(program, node), kSmallBytes + 1);
  }
  return bytes <= kSmallBytes ? 64 : 8;
}

}  // namespace gangway::internal
