#include "executor/host/plan_areas.h"

#include <set>

#include "executor/host/plan_groups.h"
#include "runtime/base/error.h"

namespace gangway {

std::string inbox_area(uint32_t node, uint32_t mesh_device) {
  return cat("inbox ", node, " ", mesh_device);
}
std::string released_area(uint32_t node, uint32_t mesh_device) {
  return cat("released ", node, " ", mesh_device);
}

TransferEnds ends_of(const LaidOutShare& share, const Entry& entry) {
  const Plan& plan = *share.plan;
  const PlanNode& node = plan.nodes[entry.node];
  const uint32_t mesh_device = mesh_device_of(plan.slices[node.slice], share.member);
  const Member other = peer_of(plan, node, mesh_device);
  if (entry.kind == EntryKind::kSend) return {node.peer, mesh_device, share.member, other};
  return {entry.node, mesh_device, other, share.member};
}

namespace {

// Bytes of a receive in host memory: none if both devices are this host's and discrete, or have no
// values.
int64_t shared_payload(const PlanOnHost& plan, const PlanNode& receive, uint32_t mesh_device) {
  if (!has_values(plan)) return 0;
  const PlanSlice& to = plan.plan->slices[receive.slice];
  const bool has_link = is_discrete(plan) &&
                        peer_of(*plan.plan, receive, mesh_device).host == plan.self &&
                        SliceMembers(to).at(mesh_device).host == plan.self;
  return has_link ? 0 : plan.plan->values[receive.results[0]].local_type.bytes();
}

}  // namespace

TransferSlots slots_of(const PlanOnHost& plan, uint32_t receive, uint32_t mesh_device) {
  const auto slots = static_cast<uint32_t>(plan.plan->runs_in_flight_max);
  return TransferSlots(shared_payload(plan, plan.plan->nodes[receive], mesh_device), slots);
}

namespace {

template <class Body>
void for_each_transfer_area(const LaidOutPlan& plan, const Member& member, Body body) {
  const Plan& facts = *plan.plan;
  for (uint32_t n = 0; n < facts.nodes.size(); ++n) {
    const PlanNode& node = facts.nodes[n];
    const uint32_t mesh_device = mesh_device_of(facts.slices[node.slice], member);
    if (node.kind == PlanNodeKind::kReceive && mesh_device != kNone)
      body(inbox_area(n, mesh_device), slots_of(plan, n, mesh_device).bytes());
    if (node.kind == PlanNodeKind::kSend && mesh_device != kNone)
      body(released_area(node.peer, mesh_device), kReleasedBytes);
  }
}

template <class Body>
void for_each_plan_area(const LaidOutPlan& plan, const Member& member, Body body) {
  for_each_group_area(plan, member, body);
  for_each_transfer_area(plan, member, body);
}

}  // namespace

int64_t shared_bytes(const LaidOutPlan& plan, const Member& member) {
  int64_t total = 0;
  for_each_plan_area(plan, member, [&](const std::string&, int64_t bytes) { total += bytes; });
  return total + group_bytes(plan, member);
}

int64_t own_inbox_bytes(const LaidOutShare& share) {
  return share.device->stream().discrete() ? share.layout.inbox_bytes : 0;
}

AreaList areas_of(const LaidOutPlan& plan) {
  AreaList areas;
  for (const PlanRank& rank : plan.ranks) {
    for_each_plan_area(plan, rank.member,
                       [&](const std::string& name, int64_t bytes) { areas.add(name, bytes); });
  }
  return areas;
}

std::vector<uint32_t> hosts_written(const LaidOutPlan& plan) {
  std::set<uint32_t> hosts;
  for (const PlanGroup& group : plan.plan_groups) {
    const std::vector<uint32_t> peers = hosts_written(group.view);
    hosts.insert(peers.begin(), peers.end());
  }
  for (const LaidOutShare& share : plan.shares) {
    for (const Entry& entry : share.entries) {
      if (entry.channel == kNone) continue;
      const TransferEnds ends = ends_of(share, entry);
      hosts.insert({ends.sender.host, ends.receiver.host});
    }
  }
  hosts.erase(plan.self);
  return {hosts.begin(), hosts.end()};
}

}  // namespace gangway
