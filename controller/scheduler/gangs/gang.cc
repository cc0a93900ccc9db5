#include "controller/scheduler/gangs/gang.h"

#include <algorithm>

namespace gangway {

const GangPlan::Stop* Gang::stop() const {
  if (stop_ == slice_->stops.size()) return nullptr;
  const GangPlan::Stop& next = slice_->stops[stop_];
  return next.position == granted_ ? &next : nullptr;
}

uint32_t Gang::range_end_max() const {
  const size_t next = stop() == nullptr ? stop_ : stop_ + 1;
  return next == slice_->stops.size() ? count() : slice_->stops[next].position;
}

std::span<const GangPlan::Stop> Gang::stops_under_way(uint32_t last) const {
  const std::span<const GangPlan::Stop> stops = std::span(slice_->stops).subspan(ended_stop_);
  const auto end = std::ranges::find_if(
      stops, [last](const GangPlan::Stop& stop) { return stop.position > last; });
  return {stops.begin(), end};
}

bool Gang::is_past_gate() const {
  return std::ranges::any_of(std::span(slice_->stops).first(stop_), &GangPlan::Stop::is_gate);
}

void Gang::grant(uint32_t end, int64_t ns, bool is_charged) {
  granted_ = end;
  while (stop_ < slice_->stops.size() && slice_->stops[stop_].position < end) ++stop_;
  under_way_.push_back({end, ns, ns > 0, is_charged});
  ahead_.ns += ns;
  if (ns > 0) ++ahead_.turns;
}

Gang::Settled Gang::settle(uint32_t end) {
  Settled settled;
  while (ended_ < end) {
    Range& range = under_way_.front();
    const bool is_all = range.end <= end;
    const uint32_t until = is_all ? range.end : end;
    // Within a range that goes on, positions count alike.
    const int64_t ns = is_all ? range.ns : range.ns * (until - ended_) / (range.end - ended_);
    settled.was.ns += ns;
    if (is_all && range.takes_time) ++settled.was.turns;
    if (range.is_charged) settled.charged_ns += ns;
    range.ns -= ns;
    ended_ = until;
    if (is_all) under_way_.pop_front();
  }
  ahead_.ns -= settled.was.ns;
  ahead_.turns -= settled.was.turns;
  while (ended_stop_ < slice_->stops.size() && slice_->stops[ended_stop_].position < ended_) {
    ++ended_stop_;
  }
  return settled;
}

}  // namespace gangway
