#include "controller/scheduler/gangs/gang_plan.h"

#include "ir/plan/sequential.h"

namespace gangway {
namespace {

// Time of a call whose function is not cut, so that its time is unknown.
constexpr int64_t kUnknownNs = 250'000;

void add_work(GangPlan::Slice& slice, const Positions& positions, Positions::Range range,
              uint32_t at) {
  for (uint32_t p = range.first; p < range.first + range.count; ++p) {
    const int64_t ns = positions.modelled_ns(at, {p, 1});
    slice.modelled_ns[p] = ns > 0 ? ns : kUnknownNs;
  }
}

// The stops of one slice, from its nodes in their order.
//
// Nodes that are dispatched sequentially go in *rounds*: a node, or a call with its receives before
// it and its sends after it.
class Stops {
 public:
  explicit Stops(std::vector<GangPlan::Stop>& stops) : stops_(stops) {}

  void add(PlanNodeKind kind, GangPlan::Stop stop, bool is_sequential) {
    const bool arrives = kind == PlanNodeKind::kReceive || kind == PlanNodeKind::kSource;
    const bool goes_on =
        kind == PlanNodeKind::kSend || ((arrives || kind == PlanNodeKind::kCall) && awaits_call_);
    if (!goes_on) round_ = stop.position;
    awaits_call_ = is_sequential && arrives;
    stop.is_sequential = is_sequential && (!goes_on || arrives);
    stop.after = stop.is_sequential ? round_ : 0;
    const bool waits = stop.is_gate || stop.slice != kNone || stop.after > 0;
    if (waits) stops_.push_back(stop);
  }

 private:
  std::vector<GangPlan::Stop>& stops_;
  bool awaits_call_ = false;  // The round has only receives and sources for its call so far.
  uint32_t round_ = 0;        // First position of the round.
};

}  // namespace

GangPlan gang_plan(const PlanRecord& record, bool by_section) {
  const Plan& plan = *record.plan;
  const Positions& positions = *record.positions;
  GangPlan gangs{.program = record.owner,
                 .scope = record.scope,
                 .positions = positions.total(),
                 .by_section = by_section,
                 .is_sequential = is_sequential(plan)};
  for (uint32_t s = 0; s < plan.slices.size(); ++s) {
    gangs.slices.push_back({.id = record.slices[s],
                            .devices = record.layouts[s]->devices,
                            .modelled_ns = std::vector<int64_t>(positions.count(s))});
  }
  std::vector<Stops> stops;
  for (GangPlan::Slice& slice : gangs.slices) stops.emplace_back(slice.stops);
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const PlanNode& node = plan.nodes[n];
    if (node.kind == PlanNodeKind::kGate) {
      for (uint32_t s = 0; s < gangs.slices.size(); ++s)
        stops[s].add(node.kind, {.position = positions.of(n, s).first, .is_gate = true},
                     gangs.is_sequential);
      continue;
    }
    const Positions::Range range = positions.of(n, node.slice);
    if (node.kind == PlanNodeKind::kCall || node.kind == PlanNodeKind::kCommit)
      add_work(gangs.slices[node.slice], positions, range, node.slice);
    GangPlan::Stop stop{.position = range.first};
    if (node.kind == PlanNodeKind::kReceive) {
      const uint32_t from = plan.nodes[node.peer].slice;
      if (from != node.slice) {  // Otherwise the slice's own order is enough.
        stop.slice = from;
        stop.sent = positions.of(node.peer, from).first;
      }
    }
    stops[node.slice].add(node.kind, stop, gangs.is_sequential);
  }
  return gangs;
}

}  // namespace gangway
