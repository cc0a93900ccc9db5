// Sequential dispatch: the host-side work of a node is done when the node is granted.
#include <algorithm>
#include <numeric>

#include "executor/host/host_runs.h"
#include "ir/plan/plan_members.h"

namespace gangway {
namespace {

// Whether the plan's rank number `r` of this host does the node.
bool is_on(const PlanOnHost& installed, const PlanNode& node, size_t r) {
  return mesh_device_of(installed.plan->slices[node.slice], installed.ranks[r].member) != kNone;
}

// The nodes that begin in the range.
std::vector<uint32_t> nodes_that_begin(const PlanOnHost& installed, const GrantRange& range) {
  std::vector<uint32_t> nodes;
  const uint32_t end = range.first + range.count;
  for (uint32_t p = range.first; p < end;) {
    const uint32_t node = installed.positions.node_at(range.slice, p);
    const Positions::Range of = installed.positions.of(node, range.slice);
    if (of.first == p) nodes.push_back(node);
    p = of.first + of.count;
  }
  return nodes;
}

size_t calls_here(const PlanOnHost& installed, const std::vector<uint32_t>& nodes) {
  return static_cast<size_t>(std::ranges::count_if(nodes, [&](uint32_t n) {
    const PlanNode& node = installed.plan->nodes[n];
    if (node.kind != PlanNodeKind::kCall) return false;
    for (size_t r = 0; r < installed.ranks.size(); ++r) {
      if (is_on(installed, node, r)) return true;
    }
    return false;
  }));
}

}  // namespace

void HostRuns::prepare_granted(InstalledPlan& installed, RunSlot& run, const GrantRange& range) {
  GW_REQUIRE(range.slice != kEverySlice, "grant of run ", run.run, " of \"", installed.plan->name,
             "\": expected a slice's nodes one after another, got all nodes of the run at once");
  for (uint32_t node : nodes_that_begin(installed, range)) prepare_node(installed, run, node);
}

void HostRuns::prepare_node(InstalledPlan& installed, RunSlot& run, uint32_t n) {
  const PlanNode& node = installed.plan->nodes[n];
  for (size_t r = 0; r < installed.ranks.size(); ++r) {
    if (node.kind != PlanNodeKind::kSource || !is_on(installed, node, r) || run.refused) continue;
    DeviceRun& device = *run.devices[r];
    // Its device looks at all its sources now, and reads no data.
    if (device.abandoned()) continue;
    const auto& sources = installed.plan->sources;
    const auto s = static_cast<uint32_t>(std::ranges::find(sources, n) - sources.begin());
    device.set_source(s, fill_source(installed, r, device, s, run.source_positions[s]));
  }
  fill_frames(installed, run, n);
}

size_t HostRuns::calls_to_prepare(const InstalledPlan& installed) {
  if (installed.sequential) return 0;
  std::vector<uint32_t> nodes(installed.plan->nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0u);
  return calls_here(installed, nodes);
}

size_t HostRuns::calls_to_prepare(const GrantFrame& frame) const {
  size_t calls = 0;
  for (const GrantRange& range : frame.ranges) {
    const auto found = runs_.find(range.run);
    if (found == runs_.end() || !found->second.plan->sequential) continue;
    const InstalledPlan& installed = *found->second.plan;
    const bool fits = range.slice < installed.plan->slices.size() &&
                      range.first + range.count <= installed.positions.count(range.slice);
    if (fits) calls += calls_here(installed, nodes_that_begin(installed, range));
  }
  return calls;
}

}  // namespace gangway
