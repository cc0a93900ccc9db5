// Grants and turns of GangScheduler (gang_scheduler.h).
#include <algorithm>
#include <set>
#include <utility>

#include "controller/scheduler/gangs/gang_scheduler.h"

namespace gangway {

void GangScheduler::start(RunState& run) {
  for (const GangPlan::Slice& slice : run.plan->plan.slices) {
    run.gangs.emplace_back(slice).waits_since_ns = now_ns_;
  }
  if (run.plan->all_contended.empty() && !run.plan->plan.is_sequential) grant_whole(run);
}

void GangScheduler::grant_whole(RunState& run) {
  const GangPlan& plan = run.plan->plan;
  if (plan.positions == 0) return;
  emit({.run = run.id,
        .slice = kEverySlice,
        .count = static_cast<uint32_t>(plan.positions),
        .ticket = next_ticket_});
  next_ticket_ = Ticket(next_ticket_.value + plan.positions);
  may_merge_ = false;
  for (uint32_t s = 0; s < run.gangs.size(); ++s) {
    const int64_t ns = run.plan->times[s].total_ns();
    const bool is_charged = !run.plan->contended[s].empty();
    run.gangs[s].grant(run.gangs[s].count(), ns, is_charged);
    count_ahead(run, s, {ns, ns > 0});
    if (is_charged) charge(run, s, ns);
  }
}

// Grants what needs no turn, and makes the run's gangs wait for their turns.
void GangScheduler::refresh(RunState& run) {
  for (bool granted = true; granted;) {
    granted = false;
    for (uint32_t s = 0; s < run.gangs.size(); ++s) {
      if (step(run, s)) granted = true;
    }
  }
}

// Returns whether it granted something.
bool GangScheduler::step(RunState& run, uint32_t slice) {
  Gang& gang = run.gangs[slice];
  if (gang.waits) return false;
  if (!run.plan->plan.by_section) {  // One turn for all slices, for which the first one waits.
    if (slice != 0 || is_granted_whole(run)) return false;
    if (run.plan->all_contended.empty()) {
      grant_whole(run);
      return true;
    }
    wait_for_turn(run, slice);
    return false;
  }
  if (gang.is_whole()) return false;
  if (const GangPlan::Stop* stop = gang.stop()) {
    if (stop->is_gate) return grant_gate(run);
    if (!has_ended(run, slice, *stop)) return false;
    if (stop->slice != kNone && !may_receive(run, slice, *stop)) return false;
  }
  if (run.plan->contended[slice].empty()) {
    grant(run, slice, gang.range_end_max());
    return true;
  }
  if (run.plan->measuring[slice].run == RunId()) wait_for_turn(run, slice);
  return false;
}

// Grants the gate in all slices at once, or not yet.
bool GangScheduler::grant_gate(RunState& run) {
  for (uint32_t s = 0; s < run.gangs.size(); ++s) {
    const GangPlan::Stop* stop = run.gangs[s].stop();
    if (stop == nullptr || !stop->is_gate || !has_ended(run, s, *stop)) return false;
  }
  may_merge_ = false;
  const Ticket ticket = std::exchange(next_ticket_, next_ticket_.next());
  for (uint32_t s = 0; s < run.gangs.size(); ++s) {
    const uint32_t position = run.gangs[s].granted();
    emit({.run = run.id, .slice = s, .first = position, .count = 1, .ticket = ticket});
    run.gangs[s].grant(position + 1, 0, true);
  }
  may_merge_ = false;
  return true;
}

// Sequential dispatch: whether hosts have reported the end of what the stop waits on.
bool GangScheduler::has_ended(const RunState& run, uint32_t slice, const GangPlan::Stop& stop) {
  if (!stop.is_sequential) return true;
  if (run.gangs[slice].ended() < stop.after) return false;
  return stop.slice == kNone || run.gangs[stop.slice].ended() > stop.sent;
}

// Where others compete, a slice that waits for something slow must not hold what is granted ahead
// there: its sender may have granted work before the send, but none that waits for a third slice.
bool GangScheduler::may_receive(const RunState& run, uint32_t slice,
                                const GangPlan::Stop& stop) const {
  const Gang& sender = run.gangs[stop.slice];
  if (sender.granted() <= stop.sent) return false;
  if (run.plan->contended[slice].empty() || sender.ended() > stop.sent) return true;
  return std::ranges::all_of(sender.stops_under_way(stop.sent), [&](const GangPlan::Stop& waits) {
    if (waits.is_sequential) return true;  // It was granted, so that has ended.
    return !waits.is_gate && run.gangs[waits.slice].ended() > waits.sent;
  });
}

void GangScheduler::wait_for_turn(RunState& run, uint32_t slice) {
  if (run.is_aside) return;
  Gang& gang = run.gangs[slice];
  const std::vector<GroupId>& groups = run.plan->turns_of(slice);
  gang.waits = true;
  policy_->add({.gang = {run.id, slice},
                .program = run.plan->plan.program,
                .groups = groups,
                .waits_since_ns = gang.waits_since_ns,
                .idled = run.idled && gang.granted() == 0});
  hungry_.insert(groups.begin(), groups.end());
}

void GangScheduler::pump(int64_t now_ns) {
  now_ns_ = now_ns;
  std::set<GroupId> held_up;
  while (!dirty_.empty() || !hungry_.empty()) {
    if (!dirty_.empty()) {
      advance(dirty_.extract(dirty_.begin()).value());
      continue;
    }
    const GroupId group = hungry_.extract(hungry_.begin()).value();
    if (!fill(group)) held_up.insert(group);
  }
  hungry_ = std::move(held_up);
  flush();
}

// Whether this much is granted ahead on the group, and one turn behind the one that runs.
bool GangScheduler::reaches(GroupId group, int64_t ns) const {
  const auto ahead = ahead_.find(group);
  return ahead != ahead_.end() && ahead->second.ns >= ns && ahead->second.turns >= 2;
}

// Grants turns until the quantum is full, once less than half of it is granted ahead. False: a gang
// waits there for another group, which is full.
bool GangScheduler::fill(GroupId group) {
  const int64_t quantum = quantum_ns(),
                full = quantum - quantum / 4 + 1;  // One more turn would go beyond it.
  if (reaches(group, quantum / 2)) return true;
  bool is_held_up = false;
  const Policy::May may = [&](GangId id) {
    const PlanState& plan = *runs_.at(id.run).plan;
    const bool is_full = std::ranges::any_of(plan.turns_of(id.slice),
                                             [&](GroupId each) { return reaches(each, full); });
    if (is_full) is_held_up = true;
    return !is_full;
  };
  while (!reaches(group, full)) {
    const auto next = policy_->next(group, may);
    if (!next) break;
    take_turn(*next);
  }
  return !is_held_up;
}

void GangScheduler::take_turn(GangId id) {
  RunState& run = runs_.at(id.run);
  Gang& gang = run.gangs[id.slice];
  gang.waits = false;
  gang.waits_since_ns = now_ns_;
  if (run.plan->plan.by_section) {
    const uint32_t end = turn_end(run, id.slice);
    if (!run.plan->times[id.slice].is_known(end - 1)) run.plan->measuring[id.slice] = {id.run, end};
    grant(run, id.slice, end);
  } else {
    grant_whole(run);
  }
  advance(order_of(run));
}

// A section that was never measured has a turn of its own.
uint32_t GangScheduler::turn_end(const RunState& run, uint32_t slice) const {
  const Gang& gang = run.gangs[slice];
  const SectionTimes& times = run.plan->times[slice];
  const uint32_t end_max = gang.range_end_max();
  uint32_t end = gang.granted();
  if (!times.is_measured(end)) return end + 1;
  const int64_t turn_ns = quantum_ns() / 4;
  int64_t ns = times.ns(end++);
  while (end < end_max && times.is_measured(end) && ns + times.ns(end) <= turn_ns) {
    ns += times.ns(end++);
  }
  return end;
}

void GangScheduler::grant(RunState& run, uint32_t slice, uint32_t end) {
  Gang& gang = run.gangs[slice];
  const SectionTimes& times = run.plan->times[slice];
  const uint32_t first = gang.granted(), count = end - first;
  int64_t ns = 0;
  for (uint32_t p = first; p < end; ++p) ns += times.ns(p);
  emit({.run = run.id, .slice = slice, .first = first, .count = count, .ticket = next_ticket_});
  next_ticket_ = Ticket(next_ticket_.value + count);
  const bool is_charged = !run.plan->contended[slice].empty();
  gang.grant(end, ns, is_charged);
  count_ahead(run, slice, {ns, ns > 0});
  if (is_charged) charge(run, slice, ns);
}

void GangScheduler::emit(const GrantRange& range) {
  if (may_merge_) {
    GrantRange& last = out_.back();
    if (last.run == range.run && last.slice == range.slice &&
        last.first + last.count == range.first &&
        last.ticket.value + last.count == range.ticket.value) {
      last.count += range.count;
      return;
    }
  }
  out_.push_back(range);
  may_merge_ = true;
}

void GangScheduler::flush() {
  may_merge_ = false;
  if (!out_.empty()) send_(std::exchange(out_, {}));
}

}  // namespace gangway
