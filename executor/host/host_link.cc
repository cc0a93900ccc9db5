#include "executor/host/host_link.h"

#include <algorithm>

#include "executor/collectives/shm/shm_collective.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Names of areas in the memory that hosts offer for a plan, equal on all of them.
std::string rank_area(const GroupSpec& group, size_t index, size_t rank) {
  return cat("rank ", group.slice, " ", group.axes, " ", index, " ", rank);
}
std::string gate_area(const Member& member) {
  return cat("gate ", member.host, " ", member.device);
}
std::string inbox_area(uint32_t node, uint32_t mesh_device) {
  return cat("inbox ", node, " ", mesh_device);
}
std::string released_area(uint32_t node, uint32_t mesh_device) {
  return cat("released ", node, " ", mesh_device);
}

constexpr int64_t kReleasedBytes = sizeof(std::atomic<uint64_t>);

uint32_t slots_of(const Plan& plan) { return static_cast<uint32_t>(plan.runs_in_flight_max); }

// body(group, index of the group, rank, mesh device) for each collective that `member` joins.
template <class Body>
void for_each_rank(const HostPlan& plan, const Member& member, Body body) {
  for (const GroupSpec& group : plan.groups) {
    const uint32_t mesh_device = mesh_device_of(plan.plan->slices[group.slice], member);
    if (mesh_device == kNone) continue;
    for (size_t g = 0; g < group.groups.size(); ++g) {
      const auto& devices = group.groups[g];
      const auto found = std::find(devices.begin(), devices.end(), mesh_device);
      if (found != devices.end()) body(group, g, static_cast<size_t>(found - devices.begin()));
    }
  }
}

bool has_gate(const Plan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const PlanNode& node) { return node.kind == PlanNodeKind::kGate; });
}

bool discrete(const HostPlan& plan) { return plan.devices[0]->device->discrete(); }

// What a receive has in host memory: nothing where both devices are this host's and discrete.
int64_t shared_payload(const HostPlan& plan, const PlanNode& receive, uint32_t mesh_device) {
  const PlanSlice& to = plan.plan->slices[receive.slice];
  const bool linked = discrete(plan) &&
                      peer_of(*plan.plan, receive, mesh_device).host == plan.self &&
                      slice_members(to)[mesh_device].host == plan.self;
  return linked ? 0 : plan.plan->values[receive.results[0]].local_type.bytes();
}

// The two ends of an entry that sends or receives.
struct Ends {
  uint32_t receive = 0;  // The node.
  uint32_t mesh_device = 0;
  Member sender, receiver;
};

Ends ends_of(const Plan& plan, const Entry& entry, const Member& member) {
  const PlanNode& node = plan.nodes[entry.node];
  const uint32_t mesh_device = mesh_device_of(plan.slices[node.slice], member);
  const Member other = peer_of(plan, node, mesh_device);
  if (entry.kind == EntryKind::kSend) return {node.peer, mesh_device, member, other};
  return {entry.node, mesh_device, other, member};
}

template <class Body>
void for_each_transfer_area(const HostPlan& plan, const Member& member, Body body) {
  const Plan& facts = *plan.plan;
  for (uint32_t n = 0; n < facts.nodes.size(); ++n) {
    const PlanNode& node = facts.nodes[n];
    const uint32_t mesh_device = mesh_device_of(facts.slices[node.slice], member);
    if (node.kind == PlanNodeKind::kReceive && mesh_device != kNone)
      body(inbox_area(n, mesh_device),
           TransferSlots(shared_payload(plan, node, mesh_device), slots_of(facts)).bytes());
    if (node.kind == PlanNodeKind::kSend && mesh_device != kNone)
      body(released_area(node.peer, mesh_device), kReleasedBytes);
  }
}

// Discrete devices meet in host memory, but lay no tensor there.
int64_t rank_bytes(const HostPlan& plan, const GroupSpec& group) {
  return RankArea::bytes(discrete(plan) ? 0 : group.bytes_max);
}

DevicePlan* device_of(const HostPlan& plan, const Member& member) {
  const auto found = std::find_if(plan.devices.begin(), plan.devices.end(),
                                  [&](const auto& device) { return device->member == member; });
  return found == plan.devices.end() ? nullptr : found->get();
}

DeviceGroup devices_of(const HostPlan& plan, const GroupSpec& group, size_t index) {
  const std::vector<Member> members = slice_members(plan.plan->slices[group.slice]);
  const std::vector<uint32_t>& mesh_devices = group.groups[index];
  DeviceGroup devices{.bytes_max = group.bytes_max};
  for (uint32_t mesh_device : mesh_devices) {
    const Member& member = members[mesh_device];
    devices.name += cat(plan.plan->hosts[member.host], "/", member.device, " ");
    const DevicePlan* here = device_of(plan, member);
    devices.members.push_back(here == nullptr ? nullptr : here->device);
  }
  for (size_t rank = 0; rank < mesh_devices.size(); ++rank) {
    const uint32_t next = mesh_devices[(rank + 1) % mesh_devices.size()];
    devices.links.push_back(
        link_class(*plan.plan, members[mesh_devices[rank]].host, members[next].host));
  }
  return devices;
}

template <class Body>
void for_each_area(const HostPlan& plan, const Member& member, Body body) {
  for_each_rank(plan, member, [&](const GroupSpec& group, size_t index, size_t rank) {
    body(rank_area(group, index, rank), rank_bytes(plan, group));
  });
  if (has_gate(*plan.plan)) body(gate_area(member), RankArea::bytes(0));
  for_each_transfer_area(plan, member, body);
}

}  // namespace

int64_t shared_bytes(const HostPlan& plan, const DevicePlan& device) {
  int64_t total = 0;
  for_each_area(plan, device.member, [&](const std::string&, int64_t bytes) { total += bytes; });
  return total;
}

int64_t staging_bytes(const HostPlan& plan, const DevicePlan& device) {
  int64_t total = 0;
  for_each_rank(plan, device.member, [&](const GroupSpec& group, size_t index, size_t) {
    try {
      total += device.device->collective_bytes(devices_of(plan, group, index));
    } catch (Error& error) {
      error.add_where({.program = plan.plan->name, .at = group.at});
      throw;
    }
  });
  return total;
}

int64_t own_inbox_bytes(const DevicePlan& device) {
  return device.device->discrete() ? device.layout.inbox_bytes : 0;
}

AreaList areas_of(const HostPlan& plan) {
  AreaList areas;
  for (const auto& device : plan.devices) {
    for_each_area(plan, device->member,
                  [&](const std::string& name, int64_t bytes) { areas.add(name, bytes); });
  }
  return areas;
}

namespace {

ShmMember shm_member(const Member& member, PeerMemory& peer, const std::string& area,
                     int64_t bytes) {
  std::byte* at = peer.at(peer.place(area, bytes));
  return {RankArea::at(at),
          Bell{nullptr, std::make_shared<const std::function<void()>>(
                            [&peer, device = member.device] { peer.ring(device); })}};
}

void link_collectives(HostPlan& plan, DevicePlan& device, const MemoryOf& memory_of) {
  std::map<std::pair<uint32_t, std::string>, Collective*> made;  // By slice and axes.
  for_each_rank(plan, device.member, [&](const GroupSpec& group, size_t index, size_t rank) {
    const std::vector<Member> members = slice_members(plan.plan->slices[group.slice]);
    std::vector<ShmMember> ranks;
    for (size_t r = 0; r < group.groups[index].size(); ++r) {
      const Member& member = members[group.groups[index][r]];
      ranks.push_back(shm_member(member, memory_of(member), rank_area(group, index, r),
                                 rank_bytes(plan, group)));
      ranks.back().link = link_class(*plan.plan, plan.self, member.host);
    }
    auto meeting = std::make_unique<ShmCollective>(static_cast<uint32_t>(rank), std::move(ranks),
                                                   group.bytes_max, &device.device->moved);
    device.collectives.push_back(
        device.device->collective(std::move(meeting), devices_of(plan, group, index)));
    made[{group.slice, group.axes}] = device.collectives.back().get();
  });
  for (Entry& entry : device.entries) {
    if (entry.kind != EntryKind::kCall) continue;
    for (const CompiledFunction::CollectiveNeed& need : entry.function->collective_needs()) {
      entry.collectives.push_back(made.at({plan.plan->nodes[entry.node].slice, need.axes}));
    }
  }
}

void link_gate(HostPlan& plan, DevicePlan& device, const MemoryOf& memory_of) {
  if (!has_gate(*plan.plan)) return;
  const std::vector<Member> members = plan_members(*plan.plan);
  std::vector<ShmMember> ranks;
  uint32_t rank = 0;
  for (const Member& member : members) {
    if (member == device.member) rank = static_cast<uint32_t>(ranks.size());
    ranks.push_back(shm_member(member, memory_of(member), gate_area(member), RankArea::bytes(0)));
  }
  device.collectives.push_back(std::make_unique<ShmCollective>(rank, std::move(ranks), 0));
  device.gate = device.collectives.back().get();
}

void link_channels(HostPlan& plan, DevicePlan& device, const MemoryOf& memory_of) {
  for (const Entry& entry : device.entries) {
    if (entry.channel == kNone) continue;
    const auto [receive, mesh_device, sender, receiver] = ends_of(*plan.plan, entry, device.member);
    const TransferSlots slots(shared_payload(plan, plan.plan->nodes[receive], mesh_device),
                              slots_of(*plan.plan));
    TransferChannel& channel = device.channels[entry.channel];
    channel = {.slots = slots, .link_class = link_class(*plan.plan, sender.host, receiver.host)};
    PeerMemory& inbox_host = memory_of(receiver);
    PeerMemory& released_host = memory_of(sender);
    const LinkEnd inbox{&inbox_host,
                        inbox_host.place(inbox_area(receive, mesh_device), slots.bytes()),
                        receiver.device};
    const LinkEnd released{&released_host,
                           released_host.place(released_area(receive, mesh_device), kReleasedBytes),
                           sender.device};
    if (entry.kind == EntryKind::kSend) {
      channel.sender = TransferSender(slots, plan.memory->word(released.offset), inbox);
    } else {
      channel.receiver = TransferReceiver(slots, plan.memory->at(inbox.offset), released);
    }
    if (discrete(plan) && sender.host == plan.self && receiver.host == plan.self) {
      auto& link = plan.links[{receive, mesh_device}];
      if (link == nullptr)
        link = device_of(plan, sender)
                   ->device->link_to(*device_of(plan, receiver)->device, slots.slots());
      channel.link = link;
    } else {
      const std::span<std::byte> memory = inbox_host.memory();
      device.pins.push_back(device.device->pin(memory.data(), static_cast<int64_t>(memory.size())));
    }
  }
}

}  // namespace

void link_device(HostPlan& plan, DevicePlan& device, const MemoryOf& memory_of) {
  link_collectives(plan, device, memory_of);
  link_gate(plan, device, memory_of);
  link_channels(plan, device, memory_of);
}

void place_links(HostPlan& plan) {
  for (const auto& device : plan.devices) {
    for (const Entry& entry : device->entries) {
      if (entry.channel == kNone || device->channels[entry.channel].link == nullptr) continue;
      const Ends ends = ends_of(*plan.plan, entry, device->member);
      const DevicePlan& receiver = *device_of(plan, ends.receiver);
      const uint32_t value = plan.plan->nodes[ends.receive].results[0];
      TransferChannel& channel = device->channels[entry.channel];
      channel.stride = receiver.layout.inbox_bytes;
      channel.memory = receiver.inboxes->data() + receiver.layout.values[value].offset;
    }
  }
}

}  // namespace gangway
