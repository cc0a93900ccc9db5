#include "executor/host/linked_plan.h"

#include <algorithm>

#include "executor/host/plan_areas.h"
#include "executor/host/plan_groups.h"
#include "ir/plan/plan_members.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

const LinkOffer& offer_of(const std::vector<LinkOffer>& offers, uint32_t host) {
  for (const LinkOffer& offer : offers) {
    if (offer.host == host) return offer;
  }
  throw Error(ErrorKind::kInvalid, cat("link: the offer of host ", host, " is missing"));
}

std::shared_ptr<PeerMemory> opened(const LaidOutPlan& plan, const LinkOffer& offer,
                                   const HostDevices& devices) {
  std::shared_ptr<PeerMemory> peer = devices.link().open(offer.bytes);
  // The devices outlive the memory of peers, which no call comes behind (host_link.h).
  peer->on_broken([&devices, id = plan.id, host = offer.host,
                   name = plan.plan->hosts[offer.host]](const std::string& why) {
    if (devices.on_link_broken)
      devices.on_link_broken({id, host, cat("writes to host \"", name, "\" fail: ", why)});
  });
  return peer;
}

// The link between two discrete devices of this host.
std::shared_ptr<DeviceLink> device_link(const LaidOutPlan& plan, const TransferEnds& ends,
                                        uint32_t slots, PlanLinks& links) {
  auto& link = links.device_links[{ends.receive, ends.mesh_device}];
  if (link == nullptr) {
    Device& receiver = *plan.ranks[rank_of(plan, ends.receiver)].device;
    link = plan.ranks[rank_of(plan, ends.sender)].device->link_to(receiver, slots);
  }
  return link;
}

TransferChannel channel_of(const LaidOutPlan& plan, const Entry& entry, const TransferEnds& ends,
                           const MemoryOf& memory_of) {
  const auto& [receive, mesh_device, sender, receiver] = ends;
  const TransferSlots slots = slots_of(plan, receive, mesh_device);
  TransferChannel channel{.slots = slots,
                          .link_class = link_class(*plan.plan, sender.host, receiver.host)};
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
  return channel;
}

void link_channels(const LaidOutPlan& plan, size_t rank, const MemoryOf& memory_of,
                   PlanLinks& links) {
  const LaidOutShare& laid = plan.shares[rank];
  LinkedShare& share = links.shares[rank];
  share.channels.resize(laid.channels);
  for (const Entry& entry : laid.entries) {
    if (entry.channel == kNone) continue;
    const TransferEnds ends = ends_of(laid, entry);
    TransferChannel& channel = share.channels[entry.channel];
    channel = channel_of(plan, entry, ends, memory_of);
    if (is_discrete(plan) && ends.sender.host == plan.self && ends.receiver.host == plan.self) {
      channel.link = device_link(plan, ends, channel.slots.slots(), links);
    } else {
      PeerMemory& inbox_host = memory_of(ends.receiver);
      const std::span<std::byte> memory = inbox_host.range(
          inbox_host.place(inbox_area(ends.receive, ends.mesh_device), channel.slots.bytes()));
      share.pins.push_back(
          laid.device->memory().pin(memory.data(), static_cast<int64_t>(memory.size())));
    }
  }
}

}  // namespace

LinkedPlan linked(LaidOutPlan& plan, const std::vector<LinkOffer>& offers,
                  const HostDevices& devices) {
  PlanLinks links;
  links.peers.resize(plan.plan->hosts.size());
  links.shares.resize(plan.ranks.size());
  const MemoryOf memory_of = [&](const Member& member) -> PeerMemory& {
    std::shared_ptr<PeerMemory>& peer = links.peers[member.host];
    if (peer == nullptr && member.host == plan.self) peer = plan.memory;
    if (peer == nullptr) peer = opened(plan, offer_of(offers, member.host), devices);
    GW_REQUIRE(member.device < peer->devices(), "link: host ", member.host, " offers ",
               peer->devices(), " devices, the plan uses its device ", member.device);
    return *peer;
  };
  link_groups(plan, memory_of, [&](uint32_t device) { return devices.bell(device); }, links.shares);
  for (size_t r = 0; r < plan.ranks.size(); ++r) link_channels(plan, r, memory_of, links);
  // Device threads of one machine share its cores.
  const auto threads = static_cast<int>(devices_on_machine_of(*plan.plan, plan.self));
  for (const PlanRank& rank : plan.ranks) rank.device->stream().expect_peers(threads);
  return {std::move(plan), std::move(links)};
}

}  // namespace gangway
