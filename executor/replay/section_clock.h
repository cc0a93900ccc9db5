// SectionClock: how many positions of a run have ended on one device, and how long the device was
// busy with them.
//
// It counts for the slices that this host reports to the controller
// (LaidOutShare::reported_slices). Time counts while the run is advanced, and also between two
// advances while the run keeps the device from others. Steps that a poisoned run skips take no
// time, so the time of such a run says nothing of a normal one.
//
// Threads: reset() on the reactor's, while the run is idle; start() and stop() on the device's;
// the others anywhere.
// Cost: one clock read by the caller for each stop(), one for each start() if others share the
// device, and 5 ns a reported slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "executor/replay/device_plan.h"

namespace gangway {

class SectionClock {
 public:
  explicit SectionClock(const LaidOutShare& share);

  void reset();
  // The run is granted section by section: the end of each section is news.
  void report_each() { reports_each_.store(true, std::memory_order_relaxed); }
  // The host has read which positions have ended. The exchange orders this read with stop():
  // positions that stop() counted before it found the flag set are seen here, and later ends post
  // another mail.
  void news_reported() { is_news_reported_.exchange(false, std::memory_order_acq_rel); }
  // `i`: index into LaidOutShare::reported_slices.
  uint32_t positions_ended(size_t i) const {
    return slices_[i].ended.load(std::memory_order_acquire);
  }
  int64_t busy_ns(size_t i) const { return slices_[i].busy_ns.load(std::memory_order_relaxed); }

  // Whether there is a slice to report.
  bool is_used() const { return !laid_.reported_slices.empty(); }
  // Whether stop() is called after each entry: sections are reported one by one, or the run goes
  // over from one reported slice to another.
  bool stops_at_each() const {
    return is_used() &&
           (reports_each_.load(std::memory_order_relaxed) || laid_.reported_slices.size() > 1);
  }
  // The run is advanced from now on. If it is alone on its device, its time goes on from its last
  // stop in this turn: the queue's time between two pieces is small, and reading the clock is not.
  void start(const Turn& turn) {
    if (blocks_) return;
    const bool goes_on = turn.alone && turn.timed_until_ns == 0;
    since_ns_ = goes_on ? std::max(since_ns_, turn.now_ns) : device_time_ns(turn);
  }
  // The time since start(), or since the last stop(), was for this entry; kNone: for none. All
  // entries before `cursor` have ended. Returns true if there is news, which the caller reports to
  // the host.
  bool stop(int64_t now_ns, uint32_t entry, uint32_t cursor);
  // Whether the run keeps the device until the next start().
  void block(bool blocks) { blocks_ = blocks; }

 private:
  struct Slice {
    std::atomic<uint32_t> ended{0};
    std::atomic<int64_t> busy_ns{0};
  };

  const LaidOutShare& laid_;
  std::unique_ptr<Slice[]> slices_;  // The device's thread writes.
  std::atomic<bool> reports_each_{false};
  std::atomic<bool> is_news_reported_{false};  // A mail is under way.
  int64_t since_ns_ = 0;
  bool blocks_ = false;
};

}  // namespace gangway
