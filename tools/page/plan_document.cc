#include "tools/page/plan_document.h"

#include <nlohmann/json.hpp>

#include "ir/explain/memory_chart.h"
#include "ir/inspect/collectives.h"
#include "ir/plan/plan_text.h"
#include "tools/page/made_of.h"

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

Json devices(const PlanSlice& slice) {
  Json all = Json::array();
  for (const PlanRange& range : slice.ranges) {
    for (uint32_t i = 0; i < range.count; ++i)
      all.push_back({{"host", range.host}, {"device", range.first + i}});
  }
  return all;
}

Json collective(const Function& f, NodeId id) {
  const CollectiveUse use = collective_of(f, id);
  return {{"axes", use.axes}, {"members", use.members}, {"sent_bytes", use.sent_bytes()}};
}

Json step(const Function& f, const ArenaStep& at) {
  const Node& node = f.nodes[at.node];
  Json types = Json::array();
  int64_t bytes = 0;
  for (uint32_t r = 0; r < node.results; ++r) {
    const Type& type = f.types[node.first_result + r];
    types.push_back(to_string(type));
    bytes += type.bytes();
  }
  Json json = {{"op", to_string(node.op)},
               {"types", types},
               {"bytes", bytes},
               {"arena", at.bytes},
               {"times", at.length}};
  add_place(json, f, at.node);
  if (row(node.op).meets) json["collective"] = collective(f, at.node);
  return json;
}

Json function(const LocalFunction& local, const ArenaOf& arena_of) {
  const std::vector<PlannedPart> parts = arena_of(local);
  Json steps = Json::array();
  for (const ArenaStep& at : arena_steps(parts))
    steps.push_back(step(*parts[at.part].function, at));
  return {{"name", local.function->name},
          {"arena_bytes", parts.back().plan->arena_bytes},
          {"steps", steps}};
}

Json node(const PlanNode& node) {
  Json json = {{"kind", to_string(node.kind)}, {"name", node.name}, {"slice", node.slice}};
  if (node.function != kNone) json["function"] = node.function;
  if (node.call != kNone) json["call"] = node.call;
  return json;
}

}  // namespace

std::string plan_document(const Plan& plan, const ArenaOf& arena_of) {
  Json json = {{"hosts", plan.hosts},
               {"slices", Json::array()},
               {"functions", Json::array()},
               {"nodes", Json::array()}};
  for (const PlanSlice& slice : plan.slices) {
    json["slices"].push_back(
        {{"devices", devices(slice)}, {"ranks_per_device", slice.ranks_per_device}});
  }
  for (const LocalFunction& local : plan.functions)
    json["functions"].push_back(function(local, arena_of));
  for (const PlanNode& at : plan.nodes) json["nodes"].push_back(node(at));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gangway::tool
