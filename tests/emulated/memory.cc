#include "tests/emulated/memory.h"

#include <sys/mman.h>

#include <cstring>

#include "runtime/base/error.h"

namespace gangway::emulated {
namespace {

constexpr int kGarbage = 0xCB;  // A bf16 or a float of these bytes is an absurd number.

}  // namespace

Memory::Memory() {
  void* space = mmap(nullptr, static_cast<size_t>(kSpaceBytes), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  GW_ASSERT(space != MAP_FAILED, "the emulated driver got no address space");
  space_ = static_cast<std::byte*>(space);
}

Memory::~Memory() { munmap(space_, static_cast<size_t>(kSpaceBytes)); }

Allocation& Memory::add(std::unique_ptr<Allocation> allocation) {
  auto& place = allocations_[allocation->base];
  place = std::move(allocation);
  return *place;
}

Allocation& Memory::add_device(int64_t bytes, int device, std::string label) {
  std::byte* const base = space_ + used_;
  // Leaves at least one unused line between two allocations.
  used_ += (bytes / kAlignment + 2) * kAlignment;
  GW_ASSERT(used_ < kSpaceBytes, "the emulated driver has no addresses left");
  auto owned = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  std::memset(owned.get(), kGarbage, static_cast<size_t>(bytes));
  auto made = std::make_unique<Allocation>(base, bytes, device, owned.get(), std::move(label));
  made->owned = std::move(owned);
  return add(std::move(made));
}

Allocation& Memory::add_pinned(int64_t bytes) {
  auto owned = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  std::memset(owned.get(), kGarbage, static_cast<size_t>(bytes));
  auto made = std::make_unique<Allocation>(owned.get(), bytes, Allocation::kHost, owned.get(),
                                           "pinned memory");
  made->owned = std::move(owned);
  return add(std::move(made));
}

Allocation& Memory::pin(std::byte* data, int64_t bytes) {
  auto made =
      std::make_unique<Allocation>(data, bytes, Allocation::kHost, data, "registered memory");
  made->initialised.assign(static_cast<size_t>(bytes), 1);
  return add(std::move(made));
}

void Memory::forget(Allocation& allocation) { allocations_.erase(allocation.base); }

Allocation* Memory::find(const void* address) const {
  auto after = allocations_.upper_bound(static_cast<const std::byte*>(address));
  if (after == allocations_.begin()) return nullptr;
  Allocation& before = *std::prev(after)->second;
  const bool inside = address < before.base + before.bytes || address == before.base;
  return inside ? &before : nullptr;
}

}  // namespace gangway::emulated
