#include "executor/replay/section_clock.h"

namespace gangway {

SectionClock::SectionClock(const LaidOutShare& share)
    : laid_(share), slices_(std::make_unique<Slice[]>(share.reported_slices.size())) {}

void SectionClock::reset() {
  reports_each_.store(false, std::memory_order_relaxed);
  is_news_reported_.store(false, std::memory_order_relaxed);
  blocks_ = false;
  for (size_t i = 0; i < laid_.reported_slices.size(); ++i) {
    slices_[i].ended.store(0, std::memory_order_relaxed);
    slices_[i].busy_ns.store(0, std::memory_order_relaxed);
  }
}

bool SectionClock::stop(int64_t now_ns, uint32_t entry, uint32_t cursor) {
  const uint32_t reported = entry == kNone ? kNone : laid_.reported_slice_of[entry];
  if (reported != kNone)
    slices_[reported].busy_ns.fetch_add(now_ns - since_ns_, std::memory_order_relaxed);
  since_ns_ = now_ns;
  bool is_news = false;
  for (size_t i = 0; i < laid_.reported_slices.size(); ++i) {
    const uint32_t ended = laid_.reported_slices[i].ended[cursor];
    if (ended == slices_[i].ended.load(std::memory_order_relaxed)) continue;
    slices_[i].ended.store(ended, std::memory_order_release);
    is_news = true;
  }
  if (!is_news || !reports_each_.load(std::memory_order_relaxed)) return false;
  return !is_news_reported_.exchange(true, std::memory_order_acq_rel);
}

}  // namespace gangway
