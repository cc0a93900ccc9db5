// SectionClock: how many positions of a run have ended on one device, and how long the device was
// busy with them.
//
// It counts for the slices of which this host tells the controller (DevicePlan::told_slices). Time
// counts while the run is advanced, and on while it keeps the device from others between two
// advances. What a poisoned run skips takes no time, which says nothing of what it takes.
//
// Threads: reset() on the reactor's, while the run is idle; start() and stop() on the device's;
// the others anywhere.
// Cost: one clock read by the caller for each stop(), one for each start() where others share the
// device, and 5 ns a told slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "executor/replay/device_plan.h"

namespace gangway {

class SectionClock {
 public:
  explicit SectionClock(const DevicePlan& plan);

  void reset();
  // The run is granted section by section: the end of each is news.
  void tell_each() { tells_each_.store(true, std::memory_order_relaxed); }
  // The host has read what has ended. The exchange orders this read with stop(): what stop() has
  // counted before it found the flag set is seen here, and what ends later posts another mail.
  void news_told() { is_news_told_.exchange(false, std::memory_order_acq_rel); }
  // By DevicePlan::told_slices.
  uint32_t positions_ended(size_t i) const {
    return slices_[i].ended.load(std::memory_order_acquire);
  }
  int64_t busy_ns(size_t i) const { return slices_[i].busy_ns.load(std::memory_order_relaxed); }

  // Whether anybody is told anything.
  bool is_used() const { return !plan_.told_slices.empty(); }
  // Whether stop() is called after each entry: sections are told one by one, or the run goes over
  // from one told slice to another.
  bool stops_at_each() const {
    return is_used() &&
           (tells_each_.load(std::memory_order_relaxed) || plan_.told_slices.size() > 1);
  }
  // The run is advanced from now on. Alone on its device, from where it stopped in this turn: what
  // the queue does between two pieces is small, and reading the clock is not.
  void start(const Turn& turn) {
    if (holds_) return;
    const bool goes_on = turn.alone && turn.timed_until_ns == 0;
    since_ns_ = goes_on ? std::max(since_ns_, turn.now_ns) : device_time_ns(turn);
  }
  // The time since start(), or since the last stop(), was for this entry; kNone: for none. All
  // entries before `cursor` have ended. True: there is news, which the caller tells the host.
  bool stop(int64_t now_ns, uint32_t entry, uint32_t cursor);
  // Whether the run keeps the device until the next start().
  void hold(bool holds) { holds_ = holds; }

 private:
  struct Slice {
    std::atomic<uint32_t> ended{0};
    std::atomic<int64_t> busy_ns{0};
  };

  const DevicePlan& plan_;
  std::unique_ptr<Slice[]> slices_;  // The device's thread writes.
  std::atomic<bool> tells_each_{false};
  std::atomic<bool> is_news_told_{false};  // A mail is under way.
  int64_t since_ns_ = 0;
  bool holds_ = false;
};

}  // namespace gangway
