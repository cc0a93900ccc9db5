// Sequential dispatch: the host-side work of a node is done when the node is granted.
#include <algorithm>

#include "executor/host/host_impl.h"
#include "ir/plan/plan_members.h"
#include "ir/plan/sequential.h"

namespace gangway {
namespace {

// Whether the plan's device number `d` of this host does the node.
bool is_on(const HostPlan& made, const PlanNode& node, size_t d) {
  return mesh_device_of(made.plan->slices[node.slice], made.devices[d]->member) != kNone;
}

}  // namespace

void Host::Impl::prepare_granted(HostPlan& made, PlanRun& run, const GrantRange& range) {
  GW_REQUIRE(range.slice != kEverySlice, "grant of run ", run.run, " of \"", made.plan->name,
             "\": expected a slice's nodes one after another, got all nodes of the run at once");
  for (uint32_t node : nodes_that_begin(made, range)) prepare_node(made, run, node);
}

std::vector<uint32_t> Host::Impl::nodes_that_begin(const HostPlan& made, const GrantRange& range) {
  std::vector<uint32_t> nodes;
  const uint32_t end = range.first + range.count;
  for (uint32_t p = range.first; p < end;) {
    const uint32_t node = made.positions->node_at(range.slice, p);
    const Positions::Range of = made.positions->of(node, range.slice);
    if (of.first == p && is_sequential(*made.plan, made.plan->nodes[node])) nodes.push_back(node);
    p = of.first + of.count;
  }
  return nodes;
}

void Host::Impl::prepare_node(HostPlan& made, PlanRun& run, uint32_t n) {
  const PlanNode& node = made.plan->nodes[n];
  for (size_t d = 0; d < made.devices.size(); ++d) {
    if (node.kind != PlanNodeKind::kSource || !is_on(made, node, d) || run.refused) continue;
    DeviceRun& device = *run.devices[d];
    // Its device looks at all its sources now, and reads no data.
    if (device.abandoned()) continue;
    const auto& sources = made.plan->sources;
    const auto s = static_cast<uint32_t>(std::ranges::find(sources, n) - sources.begin());
    device.set_source(s, fill_source(made, d, device, s, run.source_positions[s]));
  }
  fill_frames(made, run, n);
}

size_t Host::Impl::calls_here(const HostPlan& made, const std::vector<uint32_t>& nodes) {
  return static_cast<size_t>(std::ranges::count_if(nodes, [&](uint32_t n) {
    const PlanNode& node = made.plan->nodes[n];
    if (node.kind != PlanNodeKind::kCall) return false;
    for (size_t d = 0; d < made.devices.size(); ++d) {
      if (is_on(made, node, d)) return true;
    }
    return false;
  }));
}

size_t Host::Impl::calls_to_prepare(const PrepareFrame& frame) const {
  const auto found = plans.find(frame.run.plan);
  if (found == plans.end()) return 0;
  const HostPlan& made = *found->second;
  std::vector<uint32_t> nodes;
  for (uint32_t n = 0; n < made.plan->nodes.size(); ++n) {
    if (!is_sequential(*made.plan, made.plan->nodes[n])) nodes.push_back(n);
  }
  return calls_here(made, nodes);
}

size_t Host::Impl::calls_to_prepare(const GrantFrame& frame) const {
  size_t calls = 0;
  for (const GrantRange& range : frame.ranges) {
    const auto found = runs.find(range.run);
    if (found == runs.end() || !found->second.first->sequential) continue;
    const HostPlan& made = *found->second.first;
    const bool fits = range.slice < made.plan->slices.size() &&
                      range.first + range.count <= made.positions->count(range.slice);
    if (fits) calls += calls_here(made, nodes_that_begin(made, range));
  }
  return calls;
}

}  // namespace gangway
