#include "executor/replay/section_clock.h"

namespace gangway {

SectionClock::SectionClock(const LaidOutShare& share)
    : laid_(share), slices_(std::make_unique<Slice[]>(share.told_slices.size())) {}

void SectionClock::reset() {
  tells_each_.store(false, std::memory_order_relaxed);
  is_news_told_.store(false, std::memory_order_relaxed);
  holds_ = false;
  for (size_t i = 0; i < laid_.told_slices.size(); ++i) {
    slices_[i].ended.store(0, std::memory_order_relaxed);
    slices_[i].busy_ns.store(0, std::memory_order_relaxed);
  }
}

bool SectionClock::stop(int64_t now_ns, uint32_t entry, uint32_t cursor) {
  const uint32_t told = entry == kNone ? kNone : laid_.told_slice_of[entry];
  if (told != kNone) slices_[told].busy_ns.fetch_add(now_ns - since_ns_, std::memory_order_relaxed);
  since_ns_ = now_ns;
  bool is_news = false;
  for (size_t i = 0; i < laid_.told_slices.size(); ++i) {
    const uint32_t ended = laid_.told_slices[i].ended[cursor];
    if (ended == slices_[i].ended.load(std::memory_order_relaxed)) continue;
    slices_[i].ended.store(ended, std::memory_order_release);
    is_news = true;
  }
  if (!is_news || !tells_each_.load(std::memory_order_relaxed)) return false;
  return !is_news_told_.exchange(true, std::memory_order_acq_rel);
}

}  // namespace gangway
