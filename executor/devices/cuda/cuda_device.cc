#include "executor/devices/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "executor/devices/cuda/card_link.h"
#include "executor/devices/cuda/collectives/comm_collective.h"
#include "executor/devices/cuda/collectives/copy_collective.h"
#include "executor/devices/cuda/collectives/rank_collective.h"
#include "executor/devices/cuda/cuda_memory.h"
#include "executor/devices/cuda/kernels/rank_parts.h"

namespace gangway {

CudaDevice::CudaDevice(const CudaDeviceOptions& options)
    : Device(std::make_shared<CudaMemory>(options.name, options.memory_bytes, options.gpu),
             compiler_, stream_),
      compiler_(options.gpu, stream_),
      stream_(options.name, options.gpu) {}

namespace {

// Number of the devices that are on this card.
size_t count_on(const cuda::Gpu& gpu, const DeviceGroup& group) {
  return static_cast<size_t>(
      std::count_if(group.members.begin(), group.members.end(), [&](const Device* device) {
        return device != nullptr && device->compiler().family() == &gpu;
      }));
}

}  // namespace

std::unique_ptr<Collective> CudaDevice::collective(RendezvousOfGroup rendezvous,
                                                   const DeviceGroup& group) {
  if (count_on(stream_.gpu(), group) == group.members.size())
    return std::make_unique<CopyCollective>(
        stream_, std::move(rendezvous.all),
        CopyCollective::Options{
            .meter = stream_.moved, .bytes_max = group.bytes_max, .kinds = group.kinds});
  const bool has_ranks = group.ranks_per_device > 1;
  const auto among_cards = [&](std::unique_ptr<Collective> host_side) {
    const LinkClass next = group.links[host_side->rank()];
    return std::make_unique<CommCollective>(
        stream_, stream_.comms(), std::move(host_side),
        CommCollective::Options{.group = group.name,
                                .next = next,
                                .meter = stream_.moved,
                                .bytes_max = group.bytes_max,
                                .kinds = has_ranks ? CollectiveKinds() : group.kinds,
                                .card_of = group.device_of});
  };
  if (!has_ranks) return among_cards(std::move(rendezvous.all));
  std::unique_ptr<CommCollective> cards;
  if (rendezvous.devices != nullptr) cards = among_cards(std::move(rendezvous.devices));
  return std::make_unique<RankCollective>(
      stream_, std::move(rendezvous.all), std::move(cards),
      RankCollective::Options{
          .meter = stream_.moved, .bytes_max = group.bytes_max, .kinds = group.kinds});
}

std::optional<CollectiveRefusal> CudaDevice::refuses(const DeviceGroup& group) const {
  const size_t here = count_on(stream_.gpu(), group);
  const bool is_one_card = here == group.members.size();
  if (!is_one_card && here != 1)
    return CollectiveRefusal{": some devices of the group share a card, others do not",
                             "let all of them share one, or none"};
  // Otherwise ranks of a card would launch on communicators of their own, and two cards in two
  // orders.
  const bool has_all_ranks = std::ranges::all_of(
      group.ranks, [&](uint32_t ranks) { return ranks == group.ranks_per_device; });
  if (!is_one_card && !has_all_ranks)
    return CollectiveRefusal{cat(": some of the ", group.ranks_per_device,
                                 " ranks of a card are in the group, others are not"),
                             "let all ranks of a card be in it, or put one on each"};
  uint32_t on_card = group.ranks_per_device;
  if (is_one_card) {
    on_card = group.ranks.empty() ? static_cast<uint32_t>(here) : 0;
    for (const uint32_t ranks : group.ranks) on_card += ranks;
  }
  if (on_card > cuda::kRankPartsMax)
    return CollectiveRefusal{
        cat(" between ", on_card, " devices of one card: at most ", cuda::kRankPartsMax),
        "use fewer devices a card"};
  return std::nullopt;
}

int64_t CudaDevice::collective_bytes(const DeviceGroup& group) const {
  if (count_on(stream_.gpu(), group) == group.members.size())
    return CopyCollective::staging_bytes_for(group.bytes_max);
  if (group.ranks_per_device > 1)
    return RankCollective::staging_bytes_for(group.kinds, group.bytes_max,
                                             static_cast<uint32_t>(group.device_of.size()));
  return CommCollective::staging_bytes_for(group.kinds, group.bytes_max,
                                           static_cast<uint32_t>(group.members.size()));
}

std::unique_ptr<DeviceLink> CudaDevice::link_to(Device& receiver, uint32_t slots) {
  return std::make_unique<CardLink>(stream_, static_cast<CudaDevice&>(receiver).stream(), slots);
}

}  // namespace gangway
