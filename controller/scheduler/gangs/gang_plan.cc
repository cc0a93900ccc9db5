#include "controller/scheduler/gangs/gang_plan.h"

#include <set>

namespace gangway {
namespace {

// Of a call whose function is not cut, so that nobody knows.
constexpr int64_t kUnknownNs = 250'000;

void add_work(GangPlan::Slice& slice, const Positions& positions, Positions::Range range,
              uint32_t at) {
  for (uint32_t p = range.first; p < range.first + range.count; ++p) {
    const int64_t ns = positions.modelled_ns(at, {p, 1});
    slice.modelled_ns[p] = ns > 0 ? ns : kUnknownNs;
  }
}

bool is_any_device_in_two_slices(const PlanRecord& record) {
  std::set<DeviceRef> devices;
  for (const auto& layout : record.layouts) {
    for (DeviceRef device : layout->devices) {
      if (!devices.insert(device).second) return true;
    }
  }
  return false;
}

}  // namespace

GangPlan gang_plan(const PlanRecord& record, bool has_reports) {
  const Plan& plan = *record.plan;
  const Positions& positions = *record.positions;
  GangPlan gangs{.program = record.owner,
                 .scope = record.scope,
                 .positions = positions.total(),
                 .by_section = has_reports && !is_any_device_in_two_slices(record)};
  for (uint32_t s = 0; s < plan.slices.size(); ++s) {
    gangs.slices.push_back({.id = record.slices[s],
                            .devices = record.layouts[s]->devices,
                            .modelled_ns = std::vector<int64_t>(positions.count(s))});
  }
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const PlanNode& node = plan.nodes[n];
    const Positions::Range range = positions.of(n, node.slice);
    switch (node.kind) {
      case PlanNodeKind::kCall:
      case PlanNodeKind::kCommit:
        add_work(gangs.slices[node.slice], positions, range, node.slice);
        break;
      case PlanNodeKind::kReceive: {
        const uint32_t from = plan.nodes[node.peer].slice;
        if (from == node.slice) break;  // Its own order is enough.
        gangs.slices[node.slice].stops.push_back(
            {.position = range.first, .slice = from, .sent = positions.of(node.peer, from).first});
        break;
      }
      case PlanNodeKind::kSend:
      case PlanNodeKind::kSource:
      case PlanNodeKind::kIf:
      case PlanNodeKind::kWhile: break;  // No plan that is installed has control nodes yet.
      case PlanNodeKind::kGate:
        for (uint32_t s = 0; s < gangs.slices.size(); ++s) {
          gangs.slices[s].stops.push_back({.position = positions.of(n, s).first, .is_gate = true});
        }
        break;
    }
  }
  return gangs;
}

}  // namespace gangway
