#include "executor/host/plan_links.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {
namespace {

// Names of areas in the memory that hosts offer for a plan, equal on all of them.
std::string inbox_area(uint32_t node, uint32_t mesh_device) {
  return cat("inbox ", node, " ", mesh_device);
}
std::string released_area(uint32_t node, uint32_t mesh_device) {
  return cat("released ", node, " ", mesh_device);
}

constexpr int64_t kReleasedBytes = sizeof(std::atomic<uint64_t>);

uint32_t slots_of(const HostPlan& plan) {
  return plan.planted.one_slot ? 1 : static_cast<uint32_t>(plan.plan->runs_in_flight_max);
}

// Bytes of a receive in host memory: none if both devices are this host's and discrete, or have no
// values.
int64_t shared_payload(const HostPlan& plan, const PlanNode& receive, uint32_t mesh_device) {
  if (!has_values(plan)) return 0;
  const PlanSlice& to = plan.plan->slices[receive.slice];
  const bool linked = is_discrete(plan) &&
                      peer_of(*plan.plan, receive, mesh_device).host == plan.self &&
                      slice_members(to)[mesh_device].host == plan.self;
  return linked ? 0 : plan.plan->values[receive.results[0]].local_type.bytes();
}

// The two ends of an entry that sends or receives.
struct Ends {
  uint32_t receive = 0;  // The node that receives.
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
           TransferSlots(shared_payload(plan, node, mesh_device), slots_of(plan)).bytes());
    if (node.kind == PlanNodeKind::kSend && mesh_device != kNone)
      body(released_area(node.peer, mesh_device), kReleasedBytes);
  }
}

template <class Body>
void for_each_plan_area(const HostPlan& plan, const Member& member, Body body) {
  for_each_group_area(plan, member, body);
  for_each_transfer_area(plan, member, body);
}

}  // namespace

int64_t shared_bytes(const HostPlan& plan, const DevicePlan& device) {
  int64_t total = 0;
  for_each_plan_area(plan, device.member,
                     [&](const std::string&, int64_t bytes) { total += bytes; });
  return total + group_bytes(plan, device.member);
}

int64_t own_inbox_bytes(const DevicePlan& device) {
  return device.device->discrete() ? device.layout.inbox_bytes : 0;
}

AreaList areas_of(const HostPlan& plan) {
  AreaList areas;
  for (const auto& device : plan.devices) {
    for_each_plan_area(plan, device->member,
                       [&](const std::string& name, int64_t bytes) { areas.add(name, bytes); });
  }
  return areas;
}

namespace {

void link_channels(HostPlan& plan, DevicePlan& device, const MemoryOf& memory_of) {
  for (const Entry& entry : device.entries) {
    if (entry.channel == kNone) continue;
    const auto [receive, mesh_device, sender, receiver] = ends_of(*plan.plan, entry, device.member);
    const TransferSlots slots(shared_payload(plan, plan.plan->nodes[receive], mesh_device),
                              slots_of(plan));
    TransferChannel& channel = device.channels[entry.channel];
    channel = {.slots = slots,
               .link_class = link_class(*plan.plan, sender.host, receiver.host),
               .credit_at_arrival = plan.planted.credit_at_arrival};
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
    if (is_discrete(plan) && sender.host == plan.self && receiver.host == plan.self) {
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

void link_devices(HostPlan& plan, const MemoryOf& memory_of,
                  const std::function<Bell(uint32_t device)>& bell_of) {
  link_groups(plan, memory_of, bell_of);
  for (const auto& device : plan.devices) link_channels(plan, *device, memory_of);
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
