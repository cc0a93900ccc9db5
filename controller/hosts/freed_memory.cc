#include "controller/hosts/freed_memory.h"

#include <utility>

namespace gangway {

FreedMemory::Watch::Watch(FreedMemory& freed, const std::set<int64_t>& sizes,
                          std::function<void()> came)
    : freed_(freed), came_(std::move(came)) {
  for (const int64_t size : sizes) freed_.by_size_.emplace(size, this);
}

FreedMemory::Watch::~Watch() { freed_.forget(*this); }

void FreedMemory::forget(const Watch& watch) {
  std::erase_if(by_size_, [&](const auto& item) { return item.second == &watch; });
}

void FreedMemory::grew(int64_t before, int64_t now) {
  while (true) {
    const auto reached = by_size_.upper_bound(before);
    if (reached == by_size_.end() || reached->first > now) return;
    const Watch& watch = *reached->second;
    forget(watch);
    watch.came_();
  }
}

}  // namespace gangway
