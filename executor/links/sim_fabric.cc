#include "executor/links/sim_fabric.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

SimLines::SimLines(int64_t bytes)
    : lines(static_cast<size_t>(ceil_div(bytes, static_cast<int64_t>(sizeof(Line))))) {}

void SimArea::deliver() {
  const Write write = std::move(under_way.front());
  under_way.pop_front();
  std::byte* const memory = there->bytes().data();
  if (write.payload.bytes > 0)
    std::memcpy(memory + write.payload.offset, at(write.payload.offset),
                static_cast<size_t>(write.payload.bytes));
  reinterpret_cast<std::atomic<uint64_t>*>(memory + write.flag)
      ->store(write.value, std::memory_order_release);
  for (const uint32_t device : write.rings) there->bells[device].ring();
}

SimFabric::SimFabric(Reactor& reactor) : rng_(reactor.rng().fork(0x11A7)), fibers_(reactor) {}

uint64_t SimFabric::add(const std::shared_ptr<SimMemory>& memory) {
  std::erase_if(offers_, [](const auto& offer) { return offer.second.expired(); });
  for (const auto& [number, offered] : offers_)
    GW_ASSERT(offered.lock() != memory, "simulated host: this memory is offer ", number,
              " already");
  offers_[++last_] = memory;
  return last_;
}

std::shared_ptr<SimMemory> SimFabric::find(uint64_t number) const {
  const auto found = offers_.find(number);
  auto memory = found == offers_.end() ? nullptr : found->second.lock();
  if (memory == nullptr)
    throw Error(ErrorKind::kUnavailable, "simulated host: its peer is not in this simulation");
  return memory;
}

size_t SimFabric::size() const {
  return static_cast<size_t>(
      std::ranges::count_if(offers_, [](const auto& offer) { return !offer.second.expired(); }));
}

void SimFabric::send(const std::shared_ptr<SimArea>& area, SimArea::Write write) {
  area->under_way.push_back(std::move(write));
  if (area->under_way.size() > 1) return;
  busy_.push_back(area);
  if (busy_.size() == 1) deliver_next();
}

// Each write is a fiber's, so that devices that one has rung run before the next arrives.
void SimFabric::deliver_next() {
  fibers_->spawn("a write to a peer's memory", [this] { deliver_one(); });
}

void SimFabric::deliver_one() {
  if (busy_.empty()) return;
  std::shared_ptr<SimArea>& drawn = busy_[rng_.below(busy_.size())];
  const std::shared_ptr<SimArea> area = drawn;
  if (area->under_way.size() == 1) {
    std::swap(drawn, busy_.back());
    busy_.pop_back();
  }
  area->deliver();
  if (!busy_.empty()) deliver_next();
}

}  // namespace gangway
