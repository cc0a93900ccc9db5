#include "controller/shown_graphs.h"

#include "ir/explain/why.h"
#include "ir/plan/plan_wire.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

// Lowers the program again with a record, which gives the same plan.
std::shared_ptr<const KeptRecords::Calls> records_of(const ShownGraph& shown) {
  auto calls = std::make_shared<KeptRecords::Calls>();
  LowerOptions options = options_of(*shown.plan, shown.kinds);
  options.on_record = [&](uint32_t node, CompileRecord record) {
    calls->emplace(node, std::move(record));
  };
  CompileCache cache;
  static_cast<void>(lower(*shown.program, options, cache));
  return calls;
}

}  // namespace

std::vector<ShownPlan> ShownGraphs::plans(SessionId id) const {
  const std::map<PlanId, NamedExecutable>& named = programs_.open(id).executables.all();
  std::vector<ShownPlan> shown;
  for (const PlanRecord* plan : tables_.plans.all_of(id)) {
    if (plan->plan == nullptr || plan->released) continue;
    const auto found = named.find(plan->id);
    shown.push_back({plan->id, found == named.end() ? plan->program->name : found->second.name});
  }
  return shown;
}

const PlanRecord& ShownGraphs::chosen(SessionId id, const GraphRequest& request) const {
  std::string names;
  const PlanRecord* shown = nullptr;
  size_t fitting = 0;
  for (const auto& [plan, name] : plans(id)) {
    names += cat(names.empty() ? "" : ", ", name);
    const bool is_meant = request.plan != PlanId()
                              ? plan == request.plan
                              : request.executable.empty() || name == request.executable;
    if (!is_meant) continue;
    shown = &tables_.plans.at(plan, id);  // The last one of several with one name.
    ++fitting;
  }
  GW_REQUIRE(shown != nullptr && (fitting == 1 || !request.executable.empty()), "graph: program \"",
             programs_.open(id).name, "\" has ",
             shown == nullptr ? "no such executable" : "several executables", ": expected one of ",
             names.empty() ? "those that it will have" : names);
  return *shown;
}

ShownGraph ShownGraphs::of(const PlanRecord& shown) const {
  ShownGraph graph{.program = shown.program, .plan = shown.plan, .kinds = shown.kinds};
  for (const SliceId slice : shown.slices)
    graph.placed.push_back(tables_.slices.find(slice)->placed_because);
  return graph;
}

ShownGraph ShownGraphs::graph(SessionId id, const GraphRequest& request) {
  ShownGraph graph = of(chosen(id, request));
  if (!request.why.empty()) {
    auto calls = records_.find(graph.plan);
    if (calls == nullptr) {
      calls = tables_.background.run(request.asked_by, [graph] { return records_of(graph); });
      records_.keep(graph.program, graph.plan, calls);
    }
    graph.text = *tables_.background.run(request.asked_by, [graph, calls, what = request.why] {
      return std::make_shared<std::string>(
          why({*graph.program, *graph.plan, *calls, graph.placed}, what));
    });
  }
  return graph;
}

GraphBytes ShownGraphs::bytes_of(const ShownGraph& graph, const std::string& asked_by) {
  return tables_.background.run(asked_by, [program = graph.program, plan = graph.plan] {
    return GraphBytes{to_wire(*program), to_wire(*plan)};
  });
}

ShownTimeline ShownGraphs::timeline(SessionId id, const GraphRequest& request,
                                    uint32_t events_max) {
  const PlanRecord& shown = chosen(id, request);
  ShownTimeline timeline{.graph = of(shown), .on_hosts = shown.on_hosts};
  struct Asked {
    std::string host;
    StopToken gone;
    Future<HostTimeline> answer;
  };
  std::vector<Asked> asked;
  for (const HostId host : shown.hosts) {
    const HostRecord& record = tables_.hosts.at(host);
    if (record.lost) {
      timeline.silent.emplace(record.info.name, *record.lost);
    } else {
      asked.push_back({record.info.name, record.gone.token(), record.peer->timeline(events_max)});
    }
  }
  // The plan may be released while the hosts answer, so nothing below uses it.
  for (Asked& one : asked) {
    try {
      timeline.hosts.push_back(one.answer.take(one.gone));
      timeline.hosts.back().trace.process = one.host;
    } catch (const Error& error) {
      timeline.silent.emplace(one.host, error);
    }
  }
  return timeline;
}

}  // namespace gangway
