#include "tools/commands/lowered_program.h"

#include <algorithm>
#include <optional>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/kernels/parallel.h"
#include "ir/explain/memory_chart.h"
#include "ir/explain/plan_totals.h"
#include "ir/graph/bodies.h"
#include "ir/inspect/collectives.h"
#include "ir/inspect/graphviz.h"
#include "ir/plan/plan_text.h"
#include "ir/text/text.h"
#include "ir/transforms/propagation/placed_functions.h"
#include "runtime/base/error.h"
#include "runtime/base/units.h"
#include "tools/page/layout_document.h"
#include "tools/page/plan_document.h"

namespace gangway::tool {
namespace {

// Returns devices first .. first + count - 1 of all, for hosts with `each` devices each.
std::vector<PlanRange> ranges_of(uint32_t first, uint32_t count, uint32_t each) {
  std::vector<PlanRange> ranges;
  while (count > 0) {
    const uint32_t here = std::min(count, each - first % each);
    ranges.push_back({.host = first / each, .first = first % each, .count = here});
    first += here;
    count -= here;
  }
  return ranges;
}

Plan lower_with_records(LoweredProgram& lowered, LowerOptions options) {
  options.on_record = [&](uint32_t node, CompileRecord record) {
    lowered.calls.emplace(node, std::move(record));
  };
  CompileCache cache;
  return lower(lowered.program, options, cache);
}

}  // namespace

LoweredProgram lower_for_nobody(Program program, int64_t hosts, bool records_passes) {
  LoweredProgram lowered{.program = std::move(program), .plan = {}, .calls = {}};
  int64_t devices = 0;
  for (const ProgramSlice& slice : lowered.program.slices) devices += slice.mesh.devices();
  GW_REQUIRE(hosts >= 1 && devices % hosts == 0, "graph: --hosts: expected a divisor of the ",
             devices, " devices of program \"", lowered.program.name, "\", got ", hosts);
  LowerOptions options{.records_passes = records_passes};
  for (int64_t host = 0; host < hosts; ++host)
    options.hosts.push_back(hosts == 1 ? "host" : cat("host-", host));
  uint32_t first = 0;
  for (const ProgramSlice& slice : lowered.program.slices) {
    const auto count = static_cast<uint32_t>(slice.mesh.devices());
    options.slices.push_back(ranges_of(first, count, static_cast<uint32_t>(devices / hosts)));
    first += count;
  }
  lowered.plan = lower_with_records(lowered, std::move(options));
  return lowered;
}

LoweredProgram lower_as_it_runs(ProgramGraph graph, bool records_passes) {
  LoweredProgram lowered{.program = std::move(graph.program),
                         .plan = std::move(graph.plan),
                         .calls = {},
                         .placed = std::move(graph.placed)};
  LowerOptions options = options_of(lowered.plan, std::move(graph.kinds));
  options.records_passes = records_passes;
  lower_with_records(lowered, std::move(options));
  return lowered;
}

std::string shardings_text(const LoweredProgram& lowered) {
  std::string text;
  for (const auto& [node, record] : lowered.calls)
    text +=
        cat(text.empty() ? "" : "\n", print(with_shardings(record.function, record.propagation)));
  return text;
}

std::string pass_text(const LoweredProgram& lowered, std::string_view pass) {
  std::string text;
  for (const auto& [node, record] : lowered.calls) {
    const auto after = std::ranges::find(record.after, pass, &AfterPass::pass);
    GW_ASSERT(after != record.after.end(), "there is no pass ", pass);
    const Function& function = after->function;
    text += cat(text.empty() ? "" : "\n", "// call \"", lowered.program.nodes[node].name, "\"");
    if (after->commit_begin != kNone) {
      text += cat(": ", commit_text(function.nodes.size(), after->commit_begin, after->sections));
    }
    text += cat("\n", print(function));
  }
  return text;
}

std::string device_text(const LoweredProgram& lowered) {
  std::string text;
  for (const LocalFunction& local : lowered.plan.functions)
    text += cat(text.empty() ? "" : "\n", print(*local.function));
  return text;
}

std::string collectives_text(const LoweredProgram& lowered) {
  std::string text;
  for (const PlanNode& node : lowered.plan.nodes) {
    if (node.function == kNone) continue;
    const LocalFunction& function = lowered.plan.functions[node.function];
    text += cat(node.name, " over ", to_string(function.function->mesh), "\n",
                summary_of(collectives_of(*function.function)));
  }
  return text;
}

std::string totals_text(const LoweredProgram& lowered) {
  std::vector<std::string> slices;
  for (const ProgramSlice& slice : lowered.program.slices) slices.push_back(slice.name);
  return plan_totals_text(lowered.plan, slices);
}

std::string memory_text(const LoweredProgram& lowered) {
  std::string text = totals_text(lowered);
  Parallel par(1);
  for (const PlanNode& node : lowered.plan.nodes) {
    if (node.kind != PlanNodeKind::kCall) continue;
    const CpuFunction function(lowered.plan.functions[node.function], par);
    text += cat("\ncall \"", node.name,
                "\", on each device, as a CPU does it: ", memory_chart(function.memory_plans()));
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> page_fields(const LoweredProgram& lowered) {
  Parallel par(1);
  std::optional<CpuFunction> function;
  const auto arena_of = [&](const LocalFunction& local) {
    return function.emplace(local, par).memory_plans();
  };
  return {
      {"program", to_json(lowered.program)},
      {"plan", plan_document(lowered.plan, arena_of)},
      {"layout", layout_document({lowered.program, lowered.plan, lowered.calls, lowered.placed})}};
}

}  // namespace gangway::tool
