#include "tools/page/timeline_document.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/plan/step_map.h"
#include "runtime/base/error.h"
#include "tools/page/made_of.h"

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;
using RowId = std::pair<int64_t, int64_t>;  // Process and thread.

constexpr std::string_view kCollectives = " collectives";

struct Span {
  RowId row;
  double begin_us = 0, length_us = 0;
  std::string name;
  int64_t run = 0, node = 0;
  std::optional<uint32_t> step;  // Empty unless it is a kernel or a collective.
};

struct Row {
  std::string name;
  int64_t process_place = 0, place = 0;
};

struct Trace {
  std::map<int64_t, std::pair<std::string, int64_t>> processes;  // Name and position.
  std::map<RowId, Row> rows;
  std::vector<Span> spans;
  std::map<int64_t, uint64_t> plan_of;  // Keyed by run, if known.
};

Trace read(const std::string& chrome_json) {
  const Json events = Json::parse(chrome_json).at("traceEvents");
  Trace trace;
  for (const Json& event : events) {
    const std::string kind = event.at("ph");
    const int64_t process = event.at("pid");
    const RowId row{process, event.value("tid", int64_t{0})};
    if (kind == "M") {
      const std::string what = event.at("name");
      const Json& args = event.at("args");
      if (what == "process_name") trace.processes[process].first = args.at("name");
      if (what == "process_sort_index") trace.processes[process].second = args.at("sort_index");
      if (what == "thread_name") trace.rows[row].name = args.at("name");
      if (what == "thread_sort_index") trace.rows[row].place = args.at("sort_index");
    }
    if (kind != "X" && kind != "i") continue;
    const Json& args = event.at("args");
    if (args.contains("plan")) trace.plan_of[args.at("run")] = args.at("plan");
    if (kind == "i") continue;
    Span span{row,
              event.at("ts"),
              event.at("dur"),
              event.at("name"),
              args.at("run"),
              args.at("node"),
              std::nullopt};
    if (args.contains("step")) span.step = args.at("step");
    trace.spans.push_back(std::move(span));
  }
  return trace;
}

// Finds the places of the steps of a plan's calls in the user's source.
class Places {
 public:
  explicit Places(const Plan& plan) : plan_(plan) {}

  // Returns the place of a span; kNone: no step of the plan fits it.
  uint32_t of(const Span& span) {
    const uint32_t function = function_of(span.node);
    if (function == kNone) return kNone;
    const StepMap& steps =
        steps_.try_emplace(function, *plan_.functions[function].function).first->second;
    if (span.step.value_or(0) >= steps.count()) return kNone;
    const StepMap::Leaf leaf = steps.leaf(span.step.value_or(0));
    const Function& f = steps.function(leaf.part);
    if (to_string(f.nodes[leaf.node].op) != span.name) return kNone;
    const auto [at, is_new] = numbers_.try_emplace({&f, leaf.node}, all_.size());
    if (is_new) {
      add_place(all_.emplace_back(), f, leaf.node);
    }
    return static_cast<uint32_t>(at->second);
  }

  const Json& all() const { return all_; }

 private:
  uint32_t function_of(int64_t node) const {
    if (node < 0 || node >= static_cast<int64_t>(plan_.nodes.size())) return kNone;
    const PlanNode& of = plan_.nodes[static_cast<size_t>(node)];
    return of.call == kNone ? of.function : plan_.nodes[of.call].function;
  }

  const Plan& plan_;
  std::map<uint32_t, StepMap> steps_;  // Keyed by function.
  std::map<std::pair<const Function*, NodeId>, size_t> numbers_;
  Json all_ = Json::array();
};

// Spans of calls and of hosts' work have other names than ops have.
bool is_of_op(const Span& span, const std::set<std::string>& ops) {
  return ops.contains(span.name);
}

std::set<std::string> names_of_ops(const Plan& plan) {
  std::set<std::string> names;
  for (const LocalFunction& local : plan.functions) {
    const StepMap steps(*local.function);
    for (uint32_t part = 0; part < steps.parts(); ++part) {
      for (const Node& node : steps.function(part).nodes)
        names.insert(std::string(to_string(node.op)));
    }
  }
  return names;
}

const char* kind_of(const std::string& process, const std::string& name,
                    const std::set<std::string>& devices) {
  if (name.ends_with(kCollectives)) return "collectives";
  if (devices.contains(name)) return "device";
  if (process.starts_with("client")) return "client";
  return process == "controller" ? "controller" : "host";
}

// Returns the rows that have spans, in the viewer's order.
std::vector<RowId> rows_of(const Trace& trace) {
  std::set<RowId> with;
  for (const Span& span : trace.spans) with.insert(span.row);
  std::vector<RowId> rows(with.begin(), with.end());
  const auto place = [&](const RowId& row) {
    return std::tuple(trace.processes.at(row.first).second, row.first, trace.rows.at(row).place,
                      row.second);
  };
  std::ranges::sort(rows, {}, place);
  return rows;
}

// Returns the runs that are not the plan's.
std::set<int64_t> other_runs(const Trace& trace, const std::optional<uint64_t>& plan,
                             const std::set<std::string>& ops, Places& places) {
  std::set<int64_t> others;
  for (const auto& [run, of] : trace.plan_of) {
    if (plan && of != *plan) others.insert(run);
  }
  for (const Span& span : trace.spans) {
    if (is_of_op(span, ops) && !others.contains(span.run) && places.of(span) == kNone)
      others.insert(span.run);
  }
  return others;
}

}  // namespace

std::string timeline_document(const std::string& chrome_json, const Plan& plan,
                              const TimelineOptions& options) {
  Trace trace;
  try {
    trace = read(chrome_json);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInvalid,
                cat("timeline: expected one in Chrome's format: ", error.what()));
  }
  std::erase_if(trace.spans, [&](const Span& span) { return span.begin_us > options.until_us; });
  std::ranges::stable_sort(trace.spans, {}, &Span::begin_us);
  const size_t left_out = trace.spans.size() - std::min(trace.spans.size(), options.spans_max);
  trace.spans.erase(trace.spans.begin(),
                    trace.spans.begin() + static_cast<std::ptrdiff_t>(left_out));

  Places places(plan);
  const std::set<std::string> ops = names_of_ops(plan);
  const std::set<int64_t> others = other_runs(trace, options.plan, ops, places);
  std::set<std::string> devices;
  for (const auto& [id, row] : trace.rows) {
    if (row.name.ends_with(kCollectives))
      devices.insert(row.name.substr(0, row.name.size() - kCollectives.size()));
  }
  Json rows = Json::array(), spans = Json::array();
  std::map<RowId, size_t> number;
  for (const RowId& id : rows_of(trace)) {
    const std::string &process = trace.processes[id.first].first, &name = trace.rows[id].name;
    number[id] = rows.size();
    const std::string_view kind = kind_of(process, name, devices);
    const bool is_device = kind == "device" || kind == "collectives";
    rows.push_back({{"name", is_device ? name : cat(process, " ", name)}, {"kind", kind}});
  }
  const double begin_us = trace.spans.empty() ? 0 : trace.spans.front().begin_us;
  for (const Span& span : trace.spans) {
    const uint32_t place =
        is_of_op(span, ops) && !others.contains(span.run) ? places.of(span) : kNone;
    spans.push_back({number.at(span.row), span.begin_us - begin_us, span.length_us, span.name,
                     span.run, place == kNone ? Json() : Json(place)});
  }
  Json json = {{"left_out", left_out}, {"rows", rows}, {"places", places.all()}, {"spans", spans}};
  if (!options.silent.empty()) json["silent"] = options.silent;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gangway::tool
