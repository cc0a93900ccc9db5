#include "tests/cuda/card_group.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "executor/collectives/collective_call.h"
#include "executor/collectives/hosts/group_links.h"
#include "executor/devices/task.h"
#include "runtime/base/align.h"
#include "runtime/os/thread.h"

namespace gangway {

CardGroup::CardGroup(const std::vector<std::shared_ptr<cuda::Gpu>>& cards, int64_t bytes_max,
                     uint32_t ranks_per_device, RankOrder order)
    : link_(static_cast<uint32_t>(cards.size())), places_(cards.size() * ranks_per_device) {
  DeviceGroup group{.name = "all",
                    .links = std::vector<LinkClass>(cards.size(), LinkClass::kHost),
                    .bytes_max = bytes_max,
                    .kinds = CollectiveKinds::all(),
                    .ranks = std::vector<uint32_t>(cards.size(), ranks_per_device),
                    .ranks_per_device = ranks_per_device};
  Group all{.name = "ranks"}, devices{.name = "devices"};
  std::vector<std::shared_ptr<CudaDevice>> made;
  for (uint32_t d = 0; d < cards.size(); ++d) {
    const auto device = std::make_shared<CudaDevice>(CudaDeviceOptions{
        .name = cat("cuda-", d), .memory_bytes = int64_t{16} << 20, .gpu = cards[d]});
    device->stream().use_bell(link_.bell(d));
    group.members.push_back(device.get());
    made.push_back(device);
    devices.devices.push_back(d);
  }
  for (uint32_t r = 0; r < places_.size(); ++r) {
    const auto count = static_cast<uint32_t>(cards.size());
    const uint32_t d = order == RankOrder::kByDevice ? r / ranks_per_device : r % count;
    places_[r].device = made[d];
    all.devices.push_back(d);
    group.device_of.push_back(d);
  }
  auto rendezvous = meet(all);
  auto of_devices = meet(devices);
  for (uint32_t r = 0; r < places_.size(); ++r) {
    Place& place = places_[r];
    RendezvousOfGroup both{.all = std::move(rendezvous[r])};
    // The device's lowest rank has it.
    both.devices = std::exchange(of_devices[group.device_of[r]], nullptr);
    place.collective = place.device->collective(std::move(both), group);
    place.staging =
        allocate_buffer(place.device->memory(), place.collective->staging_bytes() + 64, "staging");
    place.collective->use_staging(place.staging->data());
    const int64_t bytes =
        2 * bytes_max + 2 * align_up(4 * static_cast<int64_t>(group.device_of.size()), 64) + 128;
    place.data = allocate_buffer(place.device->memory(), bytes, "data");
    place.host = place.device->memory().host_memory(bytes);
  }
}

std::vector<std::unique_ptr<Collective>> CardGroup::meet(const Group& group) {
  std::vector<GroupDevice> ranks;
  GroupLinks links;
  for (const uint32_t device : group.devices) {
    ranks.push_back({0, device});
    links.bells.push_back(link_.bell(device));
    links.meters.push_back(nullptr);
  }
  GroupView view =
      group_of(group.name, ranks, 0, 0, true, [](uint32_t) { return LinkClass::kHost; });
  carry_sizes(view, CollectiveKinds::all());
  AreaList areas;
  for_each_area(view, 0, [&](const std::string& name, int64_t bytes) { areas.add(name, bytes); });
  links.memory = memories_.emplace_back(link_.offer(areas));
  links.memory_of = [memory = links.memory](uint32_t, uint32_t) -> PeerMemory& { return *memory; };
  return join_group(view, links);
}

CardGroup::~CardGroup() {
  for (Place& place : places_) place.device->stream().stop();
  for (Place& place : places_) place.collective = nullptr;
}

bool CardGroup::run(const MemberBody& body) {
  std::atomic<bool> good{true};
  std::vector<Thread> threads;
  for (uint32_t r = 0; r < places_.size(); ++r) {
    threads.emplace_back("rank", [&, r] {
      Place& place = places_[r];
      CollectiveMember member{
          .rank = r,
          .size = static_cast<uint32_t>(places_.size()),
          .run = [&](const CollectiveCall& call,
                     bool poisoned) { return collective(place, call, poisoned); },
          .exchange = [&](uint64_t word, bool poisoned,
                          WordRange& words) { return exchange(place, word, poisoned, words); },
          .failure = [&] { return place.collective->failure(); }};
      if (!body(member)) good = false;
    });
  }
  for (Thread& thread : threads) thread.join();
  return good;
}

// Runs `body` on the device, and waits until it is done and all work that it started.
void CardGroup::on_device(Place& place, const std::function<Progress()>& body) {
  auto done = std::make_shared<std::promise<void>>();
  enqueue_task(
      place.device->stream(), [body](Turn&) { return body(); },
      [done](const std::shared_ptr<const Error>& failure) {
        EXPECT_EQ(failure, nullptr) << failure->what();
        done->set_value();
      });
  done->get_future().wait();
}

// The call's host tensors lie in place.host one after another, and in the same order on the card.
bool CardGroup::collective(Place& place, const CollectiveCall& given, bool poisoned) {
  CudaDevice& device = *place.device;
  const bool in_place = given.kind == CollectiveKind::kAllReduce;
  std::vector<CollectiveTensor> tensors(given.tensors.begin(), given.tensors.end());
  std::vector<int64_t> outs;
  int64_t bytes = 0;
  const auto lay = [&](const void* data, int64_t n) {
    std::copy_n(static_cast<const std::byte*>(data), n, place.host.get() + bytes);
    std::byte* const at = place.data->data() + bytes;
    bytes += align_up(n, 64);
    return at;
  };
  for (CollectiveTensor& tensor : tensors) {
    outs.push_back(bytes);
    std::byte* const in = lay(tensor.in, bytes_of(tensor));
    if (!in_place) outs.back() = bytes;
    tensor.out = in_place ? in : lay(tensor.out, out_bytes(given));
    tensor.in = in;
  }
  CollectiveCall call = given;
  call.tensors = tensors;
  const int64_t counts =
      given.kind == CollectiveKind::kRaggedAllToAll ? 4 * static_cast<int64_t>(places_.size()) : 0;
  int64_t received = 0;
  if (counts > 0) {
    call.ragged.sizes = reinterpret_cast<const int32_t*>(lay(given.ragged.sizes, counts));
    received = bytes;
    call.ragged.received = reinterpret_cast<int32_t*>(lay(given.ragged.received, counts));
  }
  device.memory().host_access(HostAccess::kWrite, place.host.get(), bytes);
  bool begun = false;
  on_device(place, [&] {
    if (!begun) {
      device.stream().copy(place.data->data(), place.host.get(), bytes);
      place.collective->begin(call, poisoned);
      begun = true;
    }
    if (place.collective->advance() == Progress::kPending) return Progress::kPending;
    device.stream().join_collectives();
    device.stream().copy(place.host.get(), place.data->data(), bytes);
    return Progress::kDone;
  });
  if (place.collective->poisoned()) return false;
  device.memory().host_access(HostAccess::kRead, place.host.get(), bytes);
  for (size_t t = 0; t < outs.size(); ++t)
    std::copy_n(place.host.get() + outs[t], in_place ? bytes_of(tensors[t]) : out_bytes(given),
                static_cast<std::byte*>(given.tensors[t].out));
  std::copy_n(place.host.get() + received, counts,
              reinterpret_cast<std::byte*>(given.ragged.received));
  return true;
}

bool CardGroup::exchange(Place& place, uint64_t word, bool poisoned, WordRange& words) {
  bool begun = false;
  on_device(place, [&] {
    if (!begun) place.collective->begin_exchange(word, poisoned);
    begun = true;
    return place.collective->advance();
  });
  words = {place.collective->least(), place.collective->most()};
  return !place.collective->poisoned();
}

}  // namespace gangway
