#include "executor/host/plan_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "executor/collectives/hosts/group_links.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

bool has_gate(const Plan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const PlanNode& node) { return node.kind == PlanNodeKind::kGate; });
}

GroupView view(const HostPlan& plan, std::string name, const std::vector<Member>& members,
               int64_t bytes_max, bool alarms) {
  std::vector<GroupDevice> devices;
  devices.reserve(members.size());
  for (const Member& member : members) devices.push_back({member.host, member.device});
  return group_of(std::move(name), devices, plan.self, bytes_max, alarms,
                  [&](uint32_t host) { return link_class(*plan.plan, plan.self, host); });
}

// The members of a row, by rank.
std::vector<Member> members_of(const Plan& plan, const GroupSpec& group, size_t row) {
  const std::vector<Member> slice = slice_members(plan.slices[group.slice]);
  std::vector<Member> members;
  for (const uint32_t mesh_device : group.groups[row]) members.push_back(slice[mesh_device]);
  return members;
}

// Which of this host's members of a group a device is; kNone: none of them.
uint32_t index_in(const GroupView& group, uint32_t device) {
  const auto found = std::ranges::find(group.here(), device, &GroupView::Member::device);
  return found == group.here().end() ? kNone : static_cast<uint32_t>(found - group.here().begin());
}

// body(group, the device's index among its members here) for each group that it is in.
template <class Body>
void for_each_group(const HostPlan& plan, const Member& member, Body body) {
  for (const PlanGroup& group : plan.meetings) {
    const uint32_t index = index_in(group.view, member.device);
    if (index != kNone) body(group, index);
  }
}

DeviceGroup devices_of(const HostPlan& plan, const PlanGroup& group) {
  const GroupSpec& spec = plan.groups[group.spec];
  const std::vector<Member> members = members_of(*plan.plan, spec, group.row);
  DeviceGroup devices{.bytes_max = spec.bytes_max};
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    const Member& next = members[(rank + 1) % members.size()];
    devices.name += cat(plan.plan->hosts[member.host], "/", member.device, " ");
    const DevicePlan* here = device_of(plan, member);
    devices.members.push_back(here == nullptr ? nullptr : here->device);
    devices.links.push_back(link_class(*plan.plan, member.host, next.host));
  }
  return devices;
}

class Linker {
 public:
  Linker(HostPlan& plan, const MemoryOf& memory_of, const std::function<Bell(uint32_t)>& bell_of)
      : plan_(plan), memory_of_(memory_of), bell_of_(bell_of) {}

  void link(const PlanGroup& group) {
    const bool gate = group.spec == kNone;
    auto meetings = join(group.view, !gate);
    for (size_t m = 0; m < meetings.size(); ++m) {
      DevicePlan& device = device_at(group.view, m);
      if (gate) {
        device.collectives.push_back(std::move(meetings[m]));
        device.gate = device.collectives.back().get();
        continue;
      }
      device.collectives.push_back(
          device.device->collective(std::move(meetings[m]), devices_of(plan_, group)));
      const GroupSpec& spec = plan_.groups[group.spec];
      made_[{&device, spec.slice, spec.axes}] = device.collectives.back().get();
    }
  }

  void give_calls_their_collectives() {
    for (const auto& device : plan_.devices) {
      for (Entry& entry : device->entries) {
        if (entry.kind != EntryKind::kCall || !entry.first) continue;
        const uint32_t slice = plan_.plan->nodes[entry.node].slice;
        for (const CompiledFunction::CollectiveNeed& need : entry.function->collective_needs())
          entry.collectives.push_back(made_.at({device.get(), slice, need.axes}));
      }
    }
  }

 private:
  DevicePlan& device_at(const GroupView& view, size_t member) const {
    return *device_of(plan_, {plan_.self, view.here()[member].device});
  }

  std::vector<std::unique_ptr<Collective>> join(const GroupView& view, bool counted) const {
    GroupLinks links{.memory = plan_.memory,
                     .memory_of = [this](uint32_t host, uint32_t device) -> PeerMemory& {
                       return memory_of_({host, device});
                     }};
    for (size_t m = 0; m < view.here().size(); ++m) {
      links.bells.push_back(bell_of_(view.here()[m].device));
      links.meters.push_back(counted ? &device_at(view, m).device->moved : nullptr);
    }
    return join_group(view, links);
  }

  HostPlan& plan_;
  const MemoryOf& memory_of_;
  const std::function<Bell(uint32_t)>& bell_of_;
  std::map<std::tuple<const DevicePlan*, uint32_t, std::string>, Collective*> made_;
};

}  // namespace

void find_groups(HostPlan& plan) {
  if (plan.devices.empty()) return;
  const bool discrete = is_discrete(plan);
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    const GroupSpec& spec = plan.groups[g];
    for (uint32_t row = 0; row < spec.groups.size(); ++row) {
      const std::vector<Member> members = members_of(*plan.plan, spec, row);
      if (std::ranges::none_of(members, [&](const Member& m) { return m.host == plan.self; }))
        continue;
      // Discrete devices meet in host memory, but lay no tensor there; and they raise alarms.
      // Those without values only meet.
      plan.meetings.push_back({g, row,
                               view(plan, cat(spec.slice, " ", spec.axes, " ", row), members,
                                    discrete || !has_values(plan) ? 0 : spec.bytes_max, discrete)});
    }
  }
  if (has_gate(*plan.plan))
    plan.meetings.push_back({kNone, 0, view(plan, "gate", plan_members(*plan.plan), 0, false)});
}

void for_each_group_area(const HostPlan& plan, const Member& member,
                         const std::function<void(const std::string&, int64_t)>& body) {
  for_each_group(plan, member, [&](const PlanGroup& group, uint32_t index) {
    for_each_area(group.view, index, body);
  });
}

int64_t group_bytes(const HostPlan& plan, const Member& member) {
  int64_t total = 0;
  for_each_group(plan, member, [&](const PlanGroup& group, uint32_t index) {
    total += private_bytes(group.view, index);
  });
  return total;
}

int64_t staging_bytes(const HostPlan& plan, const DevicePlan& device) {
  int64_t total = 0;
  for_each_group(plan, device.member, [&](const PlanGroup& group, uint32_t) {
    if (group.spec == kNone) return;
    try {
      total += device.device->collective_bytes(devices_of(plan, group));
    } catch (Error& error) {
      error.add_where({.program = plan.plan->name, .at = plan.groups[group.spec].at});
      throw;
    }
  });
  return total;
}

void link_groups(HostPlan& plan, const MemoryOf& memory_of,
                 const std::function<Bell(uint32_t device)>& bell_of) {
  Linker linker(plan, memory_of, bell_of);
  for (const PlanGroup& group : plan.meetings) linker.link(group);
  linker.give_calls_their_collectives();
}

}  // namespace gangway
