#include "controller/plans/held_bytes.h"

#include <string>
#include <variant>

namespace gangway {
namespace {

size_t held_bytes(const std::string& text) { return sizeof(std::string) + text.size(); }

size_t held_bytes(const Type& type) {
  return sizeof(Type) + type.dims.size() * sizeof(type.dims[0]);
}

size_t held_bytes(const Attrs& attrs) {
  size_t bytes = 0;
  for (const auto& [name, value] : attrs) {
    bytes += held_bytes(name) + sizeof(AttrValue);
    if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value))
      bytes += ints->size() * sizeof(int64_t);
  }
  return bytes;
}

}  // namespace

size_t held_bytes(const Function& function, std::set<const Function*>& seen) {
  size_t bytes = sizeof(Function);
  for (const Type& type : function.types) bytes += held_bytes(type);
  for (const Node& node : function.nodes) {
    bytes += sizeof(Node) + node.inputs.size() * sizeof(ValueId) + held_bytes(node.attrs);
    if (node.body != nullptr && seen.insert(node.body.get()).second)
      bytes += held_bytes(*node.body, seen);
  }
  for (const Sharding& sharding : function.shardings)
    bytes += sizeof(Sharding) + sharding.size() * sizeof(Placement);
  for (const LocEntry& loc : function.locs)
    bytes += sizeof(LocEntry) + loc.file.size() + loc.scope.size();
  bytes += function.infos.size() * sizeof(NodeInfo);
  bytes += function.parameters.size() * sizeof(Parameter);
  for (const std::string& name : function.result_names) bytes += held_bytes(name);
  return bytes;
}

size_t held_bytes(const Program& program) {
  size_t bytes = sizeof(Program);
  std::set<const Function*> seen;
  for (const auto& function : program.functions) {
    if (seen.insert(function.get()).second) bytes += held_bytes(*function, seen);
  }
  for (const ProgramNode& node : program.nodes) {
    bytes += sizeof(ProgramNode) + node.name.size() + node.inputs.size() * sizeof(Edge) +
             node.updates.size() * sizeof(StateUpdate) + held_bytes(node.attrs) +
             node.loc.file.size() + node.loc.scope.size();
    for (const Type& type : node.types) bytes += held_bytes(type);
    for (const AxisPlacements& placements : node.placements)
      bytes += sizeof(AxisPlacements) + placements.size() * sizeof(placements[0]);
  }
  return bytes;
}

size_t held_bytes(const Plan& plan) {
  size_t bytes = sizeof(Plan);
  std::set<const Function*> seen;
  const auto add = [&](const std::shared_ptr<const Function>& function) {
    if (function != nullptr && seen.insert(function.get()).second)
      bytes += held_bytes(*function, seen);
  };
  for (const LocalFunction& local : plan.functions) {
    add(local.function);
    bytes += sizeof(LocalFunction) + local.in_place.size() * sizeof(LocalFunction::InPlace) +
             local.sections.size() * sizeof(LocalFunction::Section);
  }
  for (const PlanState& state : plan.states) add(state.init);
  for (const PlanValue& value : plan.values) {
    bytes += sizeof(PlanValue) + value.name.size() +
             2 * value.type.dims.size() * sizeof(value.type.dims[0]) +
             value.sharding.size() * sizeof(Placement);
  }
  for (const PlanNode& node : plan.nodes) {
    bytes += sizeof(PlanNode) + node.name.size() + node.at.size() +
             node.inputs.size() * sizeof(PlanInput) + node.results.size() * sizeof(uint32_t) +
             held_bytes(node.attrs);
  }
  for (const std::string& host : plan.hosts) bytes += held_bytes(host);
  return bytes;
}

}  // namespace gangway
