// Gang: the positions of one slice of one run that are granted and ended, and the charges for what
// is under way.
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
  uint32_t granted() const { return granted_; }  // Positions before this one are granted.
  uint32_t ended() const { return ended_; }
  bool is_whole() const { return granted_ == count(); }

  // The stop that the next position waits at; null: it waits for nothing.
  const GangPlan::Stop* stop() const;
  // End of a range that begins with the next position, at most: it lies before the next stop.
  uint32_t range_end_max() const;
  // Stops at positions up to `last` that have not ended.
  std::span<const GangPlan::Stop> stops_under_way(uint32_t last) const;
  bool is_at_work() const { return ended_ < granted_; }
  bool is_past_gate() const;  // The gate has its ticket.

  // Grants the positions up to `end`, which count as this much device time.
  void grant(uint32_t end, int64_t ns, bool is_charged);
  // Work that is granted and has not ended.
  struct Ahead {
    int64_t ns = 0;
    int64_t turns = 0;  // Grants that take time.
  };
  // Returned by settle(), which notes that positions up to `end` have ended: the time that they
  // counted as, and the part of it that was charged.
  struct Settled {
    Ahead was;
    int64_t charged_ns = 0;
  };
  Settled settle(uint32_t end);
  const Ahead& ahead() const { return ahead_; }

  bool waits = false;  // It waits for its turn, in the policy.
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
  size_t ended_stop_ = 0;  // The first stop that has not ended.
  std::deque<Range> under_way_;
  Ahead ahead_;
};

}  // namespace gangway
