#include "executor/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace gangway {

Prefetcher::Prefetcher(Options options, uint64_t first, Fill fill)
    : options_(std::move(options)), fill_(std::move(fill)), wanted_(first), next_fill_(first) {
  GW_REQUIRE(options_.depth >= 1, "prefetcher: expected a depth of at least 1, got ",
             options_.depth);
  slots_.resize(static_cast<size_t>(options_.depth));
  for (Slot& slot : slots_) slot.tokens.resize(options_.tokens);
  worker_ = Thread(options_.thread_name, [this] { serve(); });
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_one();
}

void Prefetcher::take(uint64_t position, std::span<int32_t> out) {
  GW_REQUIRE(out.size() == options_.tokens, "prefetcher: expected room for ", options_.tokens,
             " tokens, got ", out.size());
  bool hit = copy_if_ready(position, out);
  room_.notify_one();
  if (!hit) fill_(position, out);
}

// Also moves the window that the worker fills on to what follows.
bool Prefetcher::copy_if_ready(uint64_t position, std::span<int32_t> out) {
  std::lock_guard lock(mutex_);
  Slot& slot = slots_[position % slots_.size()];
  bool hit = slot.ready && slot.position == position;
  if (hit) {
    std::copy(slot.tokens.begin(), slot.tokens.end(), out.begin());
    slot.ready = false;
  }
  bool jumped = position != wanted_;
  wanted_ = position + 1;
  next_fill_ = jumped ? wanted_ : std::max(next_fill_, wanted_);
  ++(hit ? counts_.hits : counts_.misses);
  return hit;
}

void Prefetcher::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] { return stopping_ || next_fill_ < wanted_ + slots_.size(); });
    if (stopping_) return;
    uint64_t position = next_fill_++;
    Slot& slot = slots_[position % slots_.size()];
    // While it is not ready nobody else looks at the slot's tokens.
    slot.ready = false;
    lock.unlock();
    bool filled = true;
    try {
      fill_(position, slot.tokens);
    } catch (...) {
      // Whoever takes this position meets the error in a place that can report it.
      filled = false;
    }
    lock.lock();
    slot.position = position;
    slot.ready = filled;
  }
}

Prefetcher::Counts Prefetcher::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace gangway
