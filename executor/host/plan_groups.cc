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
  for (const Member& member : members) devices.push_back({member.host, member.device});
  return group_of(std::move(name), devices, plan.self, bytes_max, alarms,
                  [&](uint32_t host) { return link_class(*plan.plan, plan.self, host); });
}

std::vector<Member> members_of(const HostPlan& plan, const GroupSpec& group, size_t index) {
  const std::vector<Member> slice = slice_members(plan.plan->slices[group.slice]);
  std::vector<Member> members;
  for (const uint32_t mesh_device : group.groups[index]) members.push_back(slice[mesh_device]);
  return members;
}

// Discrete devices meet in host memory, but lay no tensor there; and they raise alarms. Those
// without values only meet.
GroupView view_of(const HostPlan& plan, const GroupSpec& group, size_t index) {
  return view(plan, cat(group.slice, " ", group.axes, " ", index), members_of(plan, group, index),
              is_discrete(plan) || !has_values(plan) ? 0 : group.bytes_max, is_discrete(plan));
}

GroupView gate_view(const HostPlan& plan) {
  return view(plan, "gate", plan_members(*plan.plan), 0, false);
}

uint32_t index_in(const GroupView& group, uint32_t device) {
  const auto found = std::ranges::find(group.here(), device, &GroupView::Member::device);
  GW_ASSERT(found != group.here().end(), "a device in a group that it is no member of");
  return static_cast<uint32_t>(found - group.here().begin());
}

// body(group, index of the row) for each that `member` is in.
template <class Body>
void for_each_row(const HostPlan& plan, const Member& member, Body body) {
  for (const GroupSpec& group : plan.groups) {
    const uint32_t mesh_device = mesh_device_of(plan.plan->slices[group.slice], member);
    if (mesh_device == kNone) continue;
    for (size_t g = 0; g < group.groups.size(); ++g) {
      if (std::ranges::count(group.groups[g], mesh_device) > 0) body(group, g);
    }
  }
}

// body(view) for each group that `member` is in, the gate too.
template <class Body>
void for_each_view(const HostPlan& plan, const Member& member, Body body) {
  for_each_row(plan, member,
               [&](const GroupSpec& group, size_t index) { body(view_of(plan, group, index)); });
  if (has_gate(*plan.plan)) body(gate_view(plan));
}

DeviceGroup devices_of(const HostPlan& plan, const GroupSpec& group, size_t index) {
  const std::vector<Member> members = members_of(plan, group, index);
  DeviceGroup devices{.bytes_max = group.bytes_max};
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

  void link(const GroupSpec& group, size_t index) {
    const GroupView view = view_of(plan_, group, index);
    auto meetings = join(view, true);
    for (size_t m = 0; m < meetings.size(); ++m) {
      DevicePlan& device = device_at(view, m);
      device.collectives.push_back(
          device.device->collective(std::move(meetings[m]), devices_of(plan_, group, index)));
      made_[{&device, group.slice, group.axes}] = device.collectives.back().get();
    }
  }

  void link_gate() {
    const GroupView view = gate_view(plan_);
    auto gates = join(view, false);
    for (size_t m = 0; m < gates.size(); ++m) {
      DevicePlan& device = device_at(view, m);
      device.collectives.push_back(std::move(gates[m]));
      device.gate = device.collectives.back().get();
    }
  }

  void give_calls_their_collectives() {
    for (const auto& device : plan_.devices) {
      for (Entry& entry : device->entries) {
        if (entry.kind != EntryKind::kCall) continue;
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

void for_each_group_area(const HostPlan& plan, const Member& member,
                         const std::function<void(const std::string&, int64_t)>& body) {
  for_each_view(plan, member, [&](const GroupView& group) {
    for_each_area(group, index_in(group, member.device), body);
  });
}

int64_t group_bytes(const HostPlan& plan, const Member& member) {
  int64_t total = 0;
  for_each_view(plan, member, [&](const GroupView& group) {
    total += private_bytes(group, index_in(group, member.device));
  });
  return total;
}

int64_t staging_bytes(const HostPlan& plan, const DevicePlan& device) {
  int64_t total = 0;
  for_each_row(plan, device.member, [&](const GroupSpec& group, size_t index) {
    try {
      total += device.device->collective_bytes(devices_of(plan, group, index));
    } catch (Error& error) {
      error.add_where({.program = plan.plan->name, .at = group.at});
      throw;
    }
  });
  return total;
}

void link_groups(HostPlan& plan, const MemoryOf& memory_of,
                 const std::function<Bell(uint32_t device)>& bell_of) {
  Linker linker(plan, memory_of, bell_of);
  for (const GroupSpec& group : plan.groups) {
    for (size_t index = 0; index < group.groups.size(); ++index) {
      const std::vector<Member> members = members_of(plan, group, index);
      if (std::ranges::any_of(members, [&](const Member& m) { return m.host == plan.self; }))
        linker.link(group, index);
    }
  }
  if (has_gate(*plan.plan) && !plan.devices.empty()) linker.link_gate();
  linker.give_calls_their_collectives();
}

}  // namespace gangway
