// Gang: how far one slice of one run is granted and ended, and what it was charged for what is
// under way.
//
// Threads: a value on the reactor's thread.
// Cost: O(1) a grant; a report O(grants that it ends).
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "controller/scheduler/gangs/gang_plan.h"

namespace gangway {

class Gang {
 public:
  explicit Gang(const GangPlan::Slice& slice) : slice_(&slice) {}

  uint32_t count() const { return static_cast<uint32_t>(slice_->modelled_ns.size()); }
  uint32_t granted() const { return granted_; }  // Positions before this one.
  uint32_t ended() const { return ended_; }
  bool is_whole() const { return granted_ == count(); }

  // What the next position waits for; null: nothing.
  const GangPlan::Stop* stop() const;
  // Where a range that begins with the next position must end: before the next stop.
  uint32_t range_end_max() const;
  // The positions up to `last` that have not ended and wait for something.
  std::span<const GangPlan::Stop> stops_under_way(uint32_t last) const;
  bool is_at_work() const { return ended_ < granted_; }
  bool is_past_gate() const;  // The gate has its ticket.

  // Positions up to `end` are granted, and count as so much device time.
  void grant(uint32_t end, int64_t ns, bool is_charged);
  // What is granted and has not ended.
  struct Ahead {
    int64_t ns = 0;
    int64_t turns = 0;  // Grants that take time.
  };
  // Positions up to `end` have ended: what they counted as, and how much of it was charged.
  struct Settled {
    Ahead was;
    int64_t charged_ns = 0;
  };
  Settled settle(uint32_t end);
  const Ahead& ahead() const { return ahead_; }

  bool waits = false;  // For its turn, in the policy.
  int64_t waits_since_ns = 0;

 private:
  struct Range {
    uint32_t end = 0;
    int64_t ns = 0;
    bool takes_time = false;
    bool is_charged = false;
  };

  const GangPlan::Slice* slice_;
  uint32_t granted_ = 0, ended_ = 0;
  size_t stop_ = 0;        // The first stop that is not granted.
  size_t ended_stop_ = 0;  // The first that has not ended.
  std::deque<Range> under_way_;
  Ahead ahead_;
};

}  // namespace gangway
