// The part of Controller that serves inspection of a program: the graph as it was sent, as it was
// lowered, and why; and the last events of its devices.
#include "controller/controller.h"
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

std::vector<ShownPlan> Controller::shown_plans(SessionId id) {
  const std::map<PlanId, NamedExecutable>& named = open_program(id).executables.all();
  std::vector<ShownPlan> shown;
  for (const PlanRecord* plan : plans_.all_of(id)) {
    if (plan->plan == nullptr || plan->released) continue;
    const auto found = named.find(plan->id);
    shown.push_back({plan->id, found == named.end() ? plan->program->name : found->second.name});
  }
  return shown;
}

const PlanRecord& Controller::shown_plan(SessionId id, const GraphRequest& request) {
  std::string names;
  const PlanRecord* shown = nullptr;
  size_t fitting = 0;
  for (const auto& [plan, name] : shown_plans(id)) {
    names += cat(names.empty() ? "" : ", ", name);
    const bool is_meant = request.plan != PlanId()
                              ? plan == request.plan
                              : request.executable.empty() || name == request.executable;
    if (!is_meant) continue;
    shown = &plans_.at(plan, id);  // The last one of several with one name.
    ++fitting;
  }
  GW_REQUIRE(shown != nullptr && (fitting == 1 || !request.executable.empty()), "graph: program \"",
             program_name(id), "\" has ",
             shown == nullptr ? "no such executable" : "several executables", ": expected one of ",
             names.empty() ? "those that it will have" : names);
  return *shown;
}

ShownGraph Controller::graph(SessionId id, const GraphRequest& request) {
  const PlanRecord& shown = shown_plan(id, request);
  ShownGraph graph{.program = shown.program, .plan = shown.plan, .kinds = shown.kinds};
  for (const SliceId slice : shown.slices)
    graph.placed.push_back(slices_.find(slice)->placed_because);
  if (!request.why.empty()) {
    auto calls = records_.find(graph.plan);
    if (calls == nullptr) {
      calls = background_.run(request.asked_by, [graph] { return records_of(graph); });
      records_.keep(graph.program, graph.plan, calls);
    }
    graph.text = *background_.run(request.asked_by, [graph, calls, what = request.why] {
      return std::make_shared<std::string>(
          why({*graph.program, *graph.plan, *calls, graph.placed}, what));
    });
  }
  return graph;
}

GraphBytes Controller::bytes_of(const ShownGraph& graph, const std::string& asked_by) {
  return background_.run(asked_by, [program = graph.program, plan = graph.plan] {
    return GraphBytes{to_wire(*program), to_wire(*plan)};
  });
}

ShownTimeline Controller::timeline(SessionId id, const GraphRequest& request, uint32_t events_max) {
  const PlanRecord& shown = shown_plan(id, request);
  ShownTimeline timeline{.graph = graph(id, request), .on_hosts = shown.on_hosts};
  struct Asked {
    std::string host;
    StopToken gone;
    Future<HostTimeline> answer;
  };
  std::vector<Asked> asked;
  for (const HostId host : shown.hosts) {
    const HostRecord& record = hosts_.at(host);
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
