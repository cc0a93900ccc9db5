#include "tests/cuda/card_group.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "executor/devices/task.h"
#include "runtime/os/thread.h"

namespace gangway {

CardGroup::CardGroup(const std::vector<std::shared_ptr<cuda::Gpu>>& cards, int64_t bytes_max)
    : areas_((cards.size() + 1) * sizeof(RankHeader)), places_(cards.size()) {
  std::vector<ShmMember> members;
  std::vector<Device*> devices;
  const std::vector<LinkClass> links(cards.size(), LinkClass::kHost);
  void* at = areas_.data();
  size_t room = areas_.size();
  auto* header = static_cast<std::byte*>(
      std::align(alignof(RankHeader), cards.size() * sizeof(RankHeader), at, room));
  for (size_t r = 0; r < cards.size(); ++r) {
    auto& device = places_[r].device;
    device = std::make_unique<CudaDevice>(CudaDeviceOptions{
        .name = cat("cuda-", r), .memory_bytes = int64_t{16} << 20, .gpu = cards[r]});
    devices.push_back(device.get());
    auto ring = std::make_shared<const std::function<void()>>([d = device.get()] { d->ring(); });
    members.push_back({RankArea::at(header + r * sizeof(RankHeader)), {nullptr, ring}});
    new (members.back().area.header) RankHeader();
  }
  for (uint32_t r = 0; r < cards.size(); ++r) {
    Place& place = places_[r];
    place.collective = place.device->collective(std::make_unique<ShmCollective>(r, members, 0),
                                                {"all", devices, links, bytes_max});
    place.staging =
        allocate_buffer(place.device->memory(), place.collective->staging_bytes() + 64, "staging");
    place.collective->use_staging(place.staging->data());
    place.data = allocate_buffer(place.device->memory(), bytes_max + 64, "data");
    place.host = place.device->host_memory(bytes_max + 64);
  }
}

CardGroup::~CardGroup() {
  for (Place& place : places_) place.device->stop();
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
          .all_reduce =
              [&](std::span<const CollectiveTensor> tensors, Reduction reduction, bool poisoned) {
                return all_reduce(place, tensors, reduction, poisoned);
              },
          .exchange =
              [&](uint64_t word, bool poisoned, std::vector<uint64_t>& words) {
                return exchange(place, word, poisoned, words);
              }};
      if (!body(member)) good = false;
    });
  }
  for (Thread& thread : threads) thread.join();
  return good;
}

// Until it is done, and all that it started.
void CardGroup::on_device(Place& place, const std::function<Progress()>& body) {
  auto done = std::make_shared<std::promise<void>>();
  enqueue_task(
      *place.device, [body](Turn&) { return body(); },
      [done](const std::shared_ptr<const Error>& failure) {
        EXPECT_EQ(failure, nullptr) << failure->what();
        done->set_value();
      });
  done->get_future().wait();
}

bool CardGroup::all_reduce(Place& place, std::span<const CollectiveTensor> tensors,
                           Reduction reduction, bool poisoned) {
  CudaDevice& device = *place.device;
  std::vector<CollectiveTensor> bucket(tensors.begin(), tensors.end());
  int64_t bytes = 0;
  for (CollectiveTensor& tensor : bucket) {
    std::copy_n(static_cast<const std::byte*>(tensor.in), bytes_of(tensor),
                place.host.get() + bytes);
    tensor.in = tensor.out = place.data->data() + bytes;
    bytes += (bytes_of(tensor) + 63) / 64 * 64;
  }
  device.host_access(HostAccess::kWrite, place.host.get(), bytes);
  bool begun = false;
  on_device(place, [&] {
    if (!begun) {
      device.copy(place.data->data(), place.host.get(), bytes);
      place.collective->begin_all_reduce(bucket, reduction, poisoned);
      begun = true;
    }
    if (place.collective->advance() == Progress::kPending) return Progress::kPending;
    device.join_collectives();
    device.copy(place.host.get(), place.data->data(), bytes);
    return Progress::kDone;
  });
  if (place.collective->poisoned()) return false;
  device.host_access(HostAccess::kRead, place.host.get(), bytes);
  const std::byte* from = place.host.get();
  for (const CollectiveTensor& tensor : tensors) {
    std::copy_n(from, bytes_of(tensor), static_cast<std::byte*>(tensor.out));
    from += (bytes_of(tensor) + 63) / 64 * 64;
  }
  return true;
}

bool CardGroup::exchange(Place& place, uint64_t word, bool poisoned, std::vector<uint64_t>& words) {
  bool begun = false;
  on_device(place, [&] {
    if (!begun) place.collective->begin_exchange(word, poisoned);
    begun = true;
    return place.collective->advance();
  });
  words.assign(place.collective->words().begin(), place.collective->words().end());
  return !place.collective->poisoned();
}

}  // namespace gangway
