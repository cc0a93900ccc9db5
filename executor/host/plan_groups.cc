#include "executor/host/plan_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "executor/collectives/hosts/group_links.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

bool has_gate(const Plan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const PlanNode& node) { return node.kind == PlanNodeKind::kGate; });
}

GroupView view(const PlanOnHost& plan, std::string name, const std::vector<Member>& members,
               int64_t bytes_max, bool abort_flags) {
  std::vector<GroupDevice> devices;
  devices.reserve(members.size());
  for (const Member& member : members) devices.push_back({member.host, member.device});
  return group_of(std::move(name), devices, plan.self, bytes_max, abort_flags,
                  [&](uint32_t host) { return link_class(*plan.plan, plan.self, host); });
}

// The members of a row, by rank.
std::vector<Member> members_of(const Plan& plan, const GroupSpec& group, size_t row) {
  const SliceMembers slice(plan.slices[group.slice]);
  std::vector<Member> members;
  for (const uint32_t mesh_device : group.rows[row].members)
    members.push_back(slice.at(mesh_device));
  return members;
}

// body(group, its index among the members here) for each group that the member is in.
template <class Body>
void for_each_group(const LaidOutPlan& plan, const Member& member, Body body) {
  for (const PlanGroup& group : plan.plan_groups) {
    const auto found = std::ranges::find(group.here, member);
    if (found != group.here.end()) body(group, static_cast<uint32_t>(found - group.here.begin()));
  }
}

// `members`: by rank.
PlanGroup group_with(const PlanOnHost& plan, std::string name, const std::vector<Member>& members,
                     int64_t bytes_max, bool abort_flags) {
  PlanGroup group{.view = view(plan, std::move(name), members, bytes_max, abort_flags)};
  for (const GroupView::Member& here : group.view.here()) group.here.push_back(members[here.rank]);
  return group;
}

PlanGroup gate_of(const PlanOnHost& plan) {
  PlanGroup gate;
  std::vector<uint32_t> devices;
  for (const PlanRank& rank : plan.ranks) {
    gate.here.push_back(rank.member);
    devices.push_back(rank.member.device);
  }
  gate.view = exchange_of("gate", members_by_host(*plan.plan), plan.self, devices,
                          [&](uint32_t host) { return link_class(*plan.plan, plan.self, host); });
  return gate;
}

// The lowest rank in the group of each device.
std::vector<Member> first_ranks(const std::vector<Member>& members) {
  std::vector<Member> first;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const Member& member : members) {
    if (seen.insert({member.host, member.device}).second) first.push_back(member);
  }
  return first;
}

DeviceGroup devices_of(const CompiledHostPlan& plan, const PlanGroup& group) {
  const GroupSpec& spec = plan.groups[group.spec];
  const std::vector<Member> members = members_of(*plan.plan, spec, group.row);
  const std::vector<Member> first = first_ranks(members);
  DeviceGroup devices{.bytes_max = spec.need.bytes_max,
                      .kinds = spec.need.kinds,
                      .ranks_per_device = plan.plan->slices[spec.slice].ranks_per_device};
  for (size_t d = 0; d < first.size(); ++d) {
    const Member& member = first[d];
    const Member& next = first[(d + 1) % first.size()];
    devices.name += cat(plan.plan->hosts[member.host], "/", member.device, " ");
    const uint32_t here = rank_of(plan, member);
    devices.members.push_back(here == kNone ? nullptr : plan.ranks[here].device);
    devices.links.push_back(link_class(*plan.plan, member.host, next.host));
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> index;
  for (uint32_t d = 0; d < first.size(); ++d) index[{first[d].host, first[d].device}] = d;
  devices.ranks.assign(first.size(), 0);
  for (const Member& member : members) {
    devices.device_of.push_back(index.at({member.host, member.device}));
    ++devices.ranks[devices.device_of.back()];
  }
  return devices;
}

class Linker {
 public:
  Linker(const LaidOutPlan& plan, const MemoryOf& memory_of,
         const std::function<Bell(uint32_t)>& bell_of, std::vector<LinkedShare>& shares)
      : plan_(plan), memory_of_(memory_of), bell_of_(bell_of), shares_(shares) {}

  void link(const PlanGroup& group) {
    const bool gate = group.spec == kNone;
    const DeviceGroup devices = gate || group.of_devices ? DeviceGroup() : devices_of(plan_, group);
    auto collectives = join(group, !gate);
    for (size_t m = 0; m < collectives.size(); ++m) {
      const uint32_t rank = rank_of(plan_, group.here[m]);
      LinkedShare& share = shares_[rank];
      if (gate) {
        share.collectives.push_back(std::move(collectives[m]));
        share.gate = share.collectives.back().get();
        continue;
      }
      if (group.of_devices) {
        of_devices_[rank] = std::move(collectives[m]);
        continue;
      }
      share.collectives.push_back(plan_.ranks[rank].device->collective(
          {std::move(collectives[m]), std::move(of_devices_[rank])}, devices));
      const GroupSpec& spec = plan_.groups[group.spec];
      made_[{rank, spec.slice, spec.need.axes}] = share.collectives.back().get();
    }
  }

  void give_calls_their_collectives() {
    for (uint32_t rank = 0; rank < shares_.size(); ++rank) {
      for (const Entry& entry : plan_.shares[rank].entries) {
        if (entry.kind != EntryKind::kCall || !entry.first) continue;
        const uint32_t slice = plan_.plan->nodes[entry.node].slice;
        for (const CompiledFunction::CollectiveNeed& need : entry.function->collective_needs())
          shares_[rank].of_calls[entry.node].push_back(made_.at({rank, slice, need.axes}));
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Collective>> join(const PlanGroup& group, bool counted) const {
    GroupLinks links{.memory = plan_.memory,
                     .memory_of = [this](uint32_t host, uint32_t device) -> PeerMemory& {
                       return memory_of_({host, device});
                     }};
    for (const Member& member : group.here) {
      links.bells.push_back(bell_of_(member.device));
      links.meters.push_back(counted ? &plan_.ranks[rank_of(plan_, member)].device->stream().moved
                                     : nullptr);
    }
    return join_group(group.view, links);
  }

  const LaidOutPlan& plan_;
  const MemoryOf& memory_of_;
  const std::function<Bell(uint32_t)>& bell_of_;
  std::vector<LinkedShare>& shares_;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, Collective*>
      made_;  // Keys begin with ranks.
  // Collectives among the ranks of one device, for the group that is linked next, which the lowest
  // of these ranks join. Keys are ranks.
  std::map<uint32_t, std::unique_ptr<Collective>> of_devices_;
};

}  // namespace

namespace {

// Discrete devices meet in host memory, but put no tensors there, only sizes of ragged rows; they
// raise abort flags too. Devices without values only meet.
void add_row(const CompiledHostPlan& plan, uint32_t spec, uint32_t row,
             std::vector<PlanGroup>& groups) {
  const GroupSpec& facts = plan.groups[spec];
  const std::vector<Member> members = members_of(*plan.plan, facts, row);
  const bool discrete = is_discrete(plan);
  const std::string name = cat(facts.slice, " ", facts.need.axes, " ", facts.rows[row].number);
  const std::vector<Member> first = first_ranks(members);
  if (discrete && first.size() > 1 && first.size() < members.size()) {
    PlanGroup& devices =
        groups.emplace_back(group_with(plan, cat(name, " devices"), first, 0, true));
    devices.spec = spec;
    devices.row = row;
    devices.of_devices = true;
  }
  const bool in_host_memory = !discrete && has_values(plan);
  PlanGroup& all = groups.emplace_back(
      group_with(plan, name, members, in_host_memory ? facts.need.bytes_max : 0, discrete));
  if (in_host_memory) all.view.kinds = facts.need.kinds;
  if (discrete) carry_sizes(all.view, facts.need.kinds);
  all.spec = spec;
  all.row = row;
}

}  // namespace

std::vector<PlanGroup> find_groups(const CompiledHostPlan& plan) {
  std::vector<PlanGroup> groups;
  if (plan.ranks.empty()) return groups;
  for (uint32_t spec = 0; spec < plan.groups.size(); ++spec) {
    for (uint32_t row = 0; row < plan.groups[spec].rows.size(); ++row)
      add_row(plan, spec, row, groups);
  }
  if (has_gate(*plan.plan)) groups.push_back(gate_of(plan));
  return groups;
}

void for_each_group_area(const LaidOutPlan& plan, const Member& member,
                         const std::function<void(const std::string&, int64_t)>& body) {
  for_each_group(plan, member, [&](const PlanGroup& group, uint32_t index) {
    for_each_area(group.view, index, body);
  });
}

int64_t group_bytes(const LaidOutPlan& plan, const Member& member) {
  int64_t total = 0;
  for_each_group(plan, member, [&](const PlanGroup& group, uint32_t index) {
    total += private_bytes(group.view, index);
  });
  return total;
}

namespace {

// Throws for a group that the device can't serve; the error names the group's first kind, with the
// user's line.
void check_group(const PlanOnHost& plan, const Device& device, const GroupSpec& spec,
                 const DeviceGroup& group) {
  const std::optional<CollectiveRefusal> refusal = device.refuses(group);
  for (size_t k = 0; refusal.has_value() && k < kCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    if (!group.kinds.has(kind)) continue;
    throw Error(ErrorKind::kUnimplemented, cat(to_string(kind), refusal->why),
                {.program = plan.plan->name, .device = device.name(), .at = spec.need.at[k]},
                refusal->hint);
  }
}

}  // namespace

int64_t staging_bytes(const LaidOutPlan& plan, const PlanRank& rank) {
  int64_t total = 0;
  for_each_group(plan, rank.member, [&](const PlanGroup& group, uint32_t) {
    if (group.spec == kNone || group.of_devices) return;
    const DeviceGroup devices = devices_of(plan, group);
    check_group(plan, *rank.device, plan.groups[group.spec], devices);
    total += rank.device->collective_bytes(devices);
  });
  return total;
}

void link_groups(const LaidOutPlan& plan, const MemoryOf& memory_of,
                 const std::function<Bell(uint32_t device)>& bell_of,
                 std::vector<LinkedShare>& shares) {
  Linker linker(plan, memory_of, bell_of, shares);
  for (const PlanGroup& group : plan.plan_groups) linker.link(group);
  linker.give_calls_their_collectives();
}

}  // namespace gangway
