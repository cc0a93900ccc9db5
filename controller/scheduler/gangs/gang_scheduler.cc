#include "controller/scheduler/gangs/gang_scheduler.h"

#include <algorithm>
#include <utility>

namespace gangway {

GangScheduler::GangScheduler(std::unique_ptr<Policy> policy, Send send, GangOptions options)
    : policy_(std::move(policy)), send_(std::move(send)), options_(std::move(options)) {}

void GangScheduler::forget(SessionId program) {
  leaving_.insert(program);
  forget_if_gone(program);
}

void GangScheduler::forget_if_gone(SessionId program) {
  const auto is_its = [&](const auto& plan) { return plan.second.plan.program == program; };
  if (!leaving_.contains(program) || std::ranges::any_of(plans_, is_its)) return;
  policy_->forget(program);
  used_.erase(program);
  live_.erase(program);
  leaving_.erase(program);
}

int64_t GangScheduler::quantum_ns() const {
  return std::max(options_.quantum_min_ns,
                  static_cast<int64_t>(grant_cost_ns_) * options_.quantum_by_grant_cost);
}

void GangScheduler::grant_took(int64_t measured_ns, int64_t writes_ns) {
  constexpr int64_t kMeasuredMaxNs = 500'000;  // Longer: the process did not run.
  const int64_t ns = std::min(measured_ns, kMeasuredMaxNs) + writes_ns;
  grant_cost_ns_ += (static_cast<double>(ns) - grant_cost_ns_) / 16;
}

std::map<SessionId, double> GangScheduler::used(int64_t now_ns) const {
  std::map<SessionId, double> used;
  for (const auto& [program, devices] : groups_.devices()) {
    const auto time = used_.find(program);
    if (time == used_.end()) continue;
    used[program] = static_cast<double>(time->second.last_second_ns(now_ns)) /
                    (static_cast<double>(DeviceTime::kWindowNs) * static_cast<double>(devices));
  }
  return used;
}

// --- Plans and groups

void GangScheduler::add_plan(PlanId id, GangPlan plan) {
  PlanState& state = plans_[id];
  state.plan = std::move(plan);
  state.measuring.resize(state.plan.slices.size());
  for (const GangPlan::Slice& slice : state.plan.slices)
    state.times.emplace_back(slice.modelled_ns);
  regroup(state.plan, [&](const GangPlan::Slice& slice) {
    return groups_.add(slice.id, state.plan.program, slice.devices);
  });
}

void GangScheduler::remove_plan(PlanId id) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return;
  const PlanState gone = std::move(found->second);
  plans_.erase(found);
  regroup(gone.plan, [&](const GangPlan::Slice& slice) { return groups_.remove(slice.id); });
  forget_if_gone(gone.plan.program);
}

// Gangs that wait do so by group: they leave, and come back when pump() looks at their runs again.
void GangScheduler::regroup(const GangPlan& plan, const Change& change) {
  leave_turns();
  for (const GangPlan::Slice& slice : plan.slices) {
    const GroupChanges changes = change(slice);
    for (const auto& [from, to] : changes.split) policy_->split(from, to);
    for (GroupId gone : changes.gone) {
      policy_->erase(gone);
      hungry_.erase(gone);
    }
  }
  recount();
}

void GangScheduler::leave_turns() {
  for (auto& [id, run] : runs_) {
    for (uint32_t s = 0; s < run.gangs.size(); ++s) {
      if (std::exchange(run.gangs[s].waits, false)) policy_->remove({id, s});
    }
  }
}

void GangScheduler::recount() {
  for (auto& [id, state] : plans_) {
    state.contended.assign(state.plan.slices.size(), {});
    std::set<GroupId> all;
    for (size_t s = 0; s < state.plan.slices.size(); ++s) {
      for (GroupId group : groups_.of(state.plan.slices[s].id)) {
        if (groups_.is_contended(group)) state.contended[s].push_back(group);
      }
      all.insert(state.contended[s].begin(), state.contended[s].end());
    }
    state.all_contended.assign(all.begin(), all.end());
  }
  ahead_.clear();
  for (const auto& [id, run] : runs_) {
    for (uint32_t s = 0; s < run.gangs.size(); ++s) count_ahead(run, s, run.gangs[s].ahead());
  }
  for (const auto& [key, order] : orders_) dirty_.insert(key);
}

// --- Runs and their orders

GangScheduler::OrderKey GangScheduler::order_of(const RunState& run) {
  return {run.plan->plan.program, run.plan->plan.scope};
}

void GangScheduler::submit(RunId id, PlanId plan, const std::vector<RunId>& makers) {
  RunState& run = runs_[id];
  run.id = id;
  run.plan = &plans_.at(plan);
  run.idled = live_[run.plan->plan.program]++ == 0;
  run.place = ++last_place_;
  const OrderKey key = order_of(run);
  orders_[key][run.place] = {.run = id};
  for (RunId maker : makers) {
    const auto found = runs_.find(maker);
    if (found == runs_.end() || order_of(found->second) == key) continue;
    run.makers.push_back(maker);
    found->second.takers.push_back(key);
  }
}

void GangScheduler::prepared(RunId id) {
  RunState& run = runs_.at(id);
  run.is_prepared = true;
  dirty_.insert(order_of(run));
}

bool GangScheduler::is_begun(RunId id) const {
  const auto run = runs_.find(id);
  return run != runs_.end() && std::ranges::any_of(run->second.gangs, [](const Gang& gang) {
           return gang.granted() > 0;
         });
}

void GangScheduler::in_order(SessionId session, uint64_t scope, std::function<void(Ticket)> send) {
  const OrderKey key{session, scope};
  orders_[key][++last_place_] = {.send = std::move(send)};
  dirty_.insert(key);
}

void GangScheduler::drop_in_order(SessionId session) {
  auto at = orders_.lower_bound({session, 0});
  while (at != orders_.end() && at->first.first == session) {
    std::erase_if(at->second, [](const auto& item) { return item.second.send != nullptr; });
    at = at->second.empty() ? orders_.erase(at) : std::next(at);
  }
}

void GangScheduler::ended(RunId id, bool is_ok) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  RunState& run = found->second;
  for (uint32_t s = 0; s < run.gangs.size(); ++s) {
    Gang& gang = run.gangs[s];
    if (gang.waits) policy_->remove({id, s});
    if (run.plan->measuring[s].run == id) run.plan->measuring[s] = {};
    const Gang::Settled rest = gang.settle(gang.granted());
    count_ended(run, s, rest.was);
    if (is_ok && rest.was.ns > 0) {  // No report of it came.
      const auto devices = static_cast<int64_t>(run.plan->plan.slices[s].devices.size());
      used_[run.plan->plan.program].add(now_ns_, rest.was.ns * devices);
    }
    if (!is_ok && rest.charged_ns != 0) charge(run, s, -rest.charged_ns);
    if (is_ok && options_.charge_log != nullptr)
      options_.charge_log->took(run.plan->plan.program, rest.charged_ns);
  }
  const OrderKey key = order_of(run);
  if (const auto order = orders_.find(key); order != orders_.end()) {
    order->second.erase(run.place);
    dirty_.insert(key);
  }
  --live_[run.plan->plan.program];
  dirty_.insert(run.takers.begin(), run.takers.end());
  runs_.erase(found);
}

// Lets go what comes first in the order, up to a run that is not granted whole.
void GangScheduler::advance(const OrderKey& key) {
  const auto order = orders_.find(key);
  if (order == orders_.end()) return;
  while (!order->second.empty()) {
    const auto first = order->second.begin();
    if (first->second.send) {
      const auto send = std::move(first->second.send);
      order->second.erase(first);
      flush();
      send(std::exchange(next_ticket_, next_ticket_.next()));
      continue;
    }
    RunState& run = runs_.at(first->second.run);
    if (!run.is_prepared || not_before(run) != RunId()) return;
    if (run.gangs.empty()) start(run);
    refresh(run);
    if (!is_granted_whole(run)) return;
    if (!std::exchange(run.was_granted_whole, true))
      dirty_.insert(run.takers.begin(), run.takers.end());
    if (run.plan->plan.is_sequential) return;  // It makes way when it has ended.
    order->second.erase(first);
  }
  orders_.erase(order);
}

// A run that must be granted whole, or has to end where this one is dispatched sequentially, before
// this one begins.
RunId GangScheduler::not_before(const RunState& run) const {
  if (!run.gangs.empty()) return RunId();  // It has begun.
  const bool is_sequential = run.plan->plan.is_sequential;
  for (RunId maker : run.makers) {
    if (is_sequential ? runs_.contains(maker) : !is_granted_whole(maker)) return maker;
  }
  if (!is_sequential) return RunId();
  const auto earlier = std::ranges::find_if(runs_, [&](const auto& other) {
    return other.second.place < run.place && order_of(other.second) == order_of(run);
  });
  return earlier == runs_.end() ? RunId() : earlier->first;
}

bool GangScheduler::is_granted_whole(RunId id) const {
  const auto run = runs_.find(id);
  return run == runs_.end() || is_granted_whole(run->second);
}

bool GangScheduler::is_granted_whole(const RunState& run) {
  return !run.gangs.empty() && std::ranges::all_of(run.gangs, &Gang::is_whole);
}

std::optional<GangScheduler::Wait> GangScheduler::waits_for_turn(RunId id) const {
  const auto found = runs_.find(id);
  if (found == runs_.end() || is_granted_whole(found->second)) return std::nullopt;
  const RunState& run = found->second;
  if (std::ranges::any_of(run.gangs, &Gang::is_at_work)) return std::nullopt;
  return Wait{.behind = run_ahead_of(run),
              .may_commit = std::ranges::any_of(run.gangs, &Gang::is_past_gate)};
}

// The first of its scope, a run whose outputs it takes, or one of another program that has turns
// ahead on its devices.
RunId GangScheduler::run_ahead_of(const RunState& run) const {
  const Item& first = orders_.at(order_of(run)).begin()->second;
  if (first.run != run.id) return first.run;
  if (const RunId ahead = not_before(run); ahead != RunId()) return ahead;
  const std::vector<GroupId>& groups = run.plan->all_contended;
  for (const auto& [id, other] : runs_) {
    if (id == run.id) continue;
    for (uint32_t s = 0; s < other.gangs.size(); ++s) {
      const auto competes = [&](GroupId group) { return std::ranges::count(groups, group) > 0; };
      if (other.gangs[s].is_at_work() && std::ranges::any_of(other.plan->contended[s], competes))
        return id;
    }
  }
  return RunId();
}

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

// Grants what needs no turn, and lets its gangs wait for theirs.
void GangScheduler::refresh(RunState& run) {
  for (bool granted = true; granted;) {
    granted = false;
    for (uint32_t s = 0; s < run.gangs.size(); ++s) {
      if (step(run, s)) granted = true;
    }
  }
}

// Whether it granted something.
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

// In all slices at once, or not yet.
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

// Sequential dispatch: hosts have said that what it waits on is over.
bool GangScheduler::has_ended(const RunState& run, uint32_t slice, const GangPlan::Stop& stop) {
  if (!stop.is_sequential) return true;
  if (run.gangs[slice].ended() < stop.after) return false;
  return stop.slice == kNone || run.gangs[stop.slice].ended() > stop.sent;
}

// Where others compete, a slice that waits for something slow must not hold what is granted ahead
// there: its sender may have granted work before it, but none that waits for a third slice.
bool GangScheduler::may_receive(const RunState& run, uint32_t slice,
                                const GangPlan::Stop& stop) const {
  const Gang& sender = run.gangs[stop.slice];
  if (sender.granted() <= stop.sent) return false;
  if (run.plan->contended[slice].empty() || sender.ended() > stop.sent) return true;
  return std::ranges::all_of(sender.stops_under_way(stop.sent), [&](const GangPlan::Stop& waits) {
    if (waits.is_sequential) return true;  // It was granted: that has ended.
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

// --- Turns

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

// Whether so much is granted ahead there, and one turn behind the one that runs.
bool GangScheduler::reaches(GroupId group, int64_t ns) const {
  const auto ahead = ahead_.find(group);
  return ahead != ahead_.end() && ahead->second.ns >= ns && ahead->second.turns >= 2;
}

// Once less than half of the quantum is granted ahead, as many turns as fill it. False: somebody
// waits there for another group, which is full.
bool GangScheduler::fill(GroupId group) {
  const int64_t quantum = quantum_ns(),
                full = quantum - quantum / 4 + 1;  // One more would go beyond it.
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

// --- What devices report

void GangScheduler::set_aside(RunId id) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || found->second.is_aside) return;
  RunState& run = found->second;
  for (uint32_t s = 0; s < run.gangs.size(); ++s) {
    if (std::exchange(run.gangs[s].waits, false)) policy_->remove({id, s});
    count_ended(run, s, run.gangs[s].ahead());
  }
  run.is_aside = true;
}

void GangScheduler::take_back(RunId id) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  RunState& run = found->second;
  if (!std::exchange(run.is_aside, false)) return;
  for (uint32_t s = 0; s < run.gangs.size(); ++s) count_ahead(run, s, run.gangs[s].ahead());
  dirty_.insert(order_of(run));
}

void GangScheduler::progress(const SectionTime& time, int64_t now_ns) {
  const auto found = runs_.find(time.run);
  if (found == runs_.end()) return;
  RunState& run = found->second;
  GW_REQUIRE(time.slice < run.gangs.size() &&
                 time.position_end <= run.gangs[time.slice].granted() && time.busy_ns >= 0,
             "progress: run ", time.run, ": position ", time.position_end, " of slice ", time.slice,
             " was not granted, or took less than no time");
  Gang& gang = run.gangs[time.slice];
  const uint32_t first = gang.ended();
  if (time.position_end <= first) return;  // Told before.
  take_back(time.run);
  Measuring& measuring = run.plan->measuring[time.slice];
  if (measuring.run == time.run && time.position_end >= measuring.end) measuring = {};
  const Gang::Settled settled = gang.settle(time.position_end);
  count_ended(run, time.slice, settled.was);
  if (settled.charged_ns > 0) {
    const double part =
        static_cast<double>(settled.charged_ns) / static_cast<double>(settled.was.ns);
    const auto busy_ns = static_cast<int64_t>(static_cast<double>(time.busy_ns) * part);
    charge(run, time.slice, busy_ns - settled.charged_ns);
    if (options_.charge_log != nullptr) options_.charge_log->took(run.plan->plan.program, busy_ns);
  }
  run.plan->times[time.slice].measured(first, time.position_end, time.busy_ns);
  const auto devices = static_cast<int64_t>(run.plan->plan.slices[time.slice].devices.size());
  used_[run.plan->plan.program].add(now_ns, time.busy_ns * devices);
  dirty_.insert(order_of(run));
}

void GangScheduler::charge(const RunState& run, uint32_t slice, int64_t ns) {
  for (int times = options_.charges_twice ? 2 : 1; times > 0; --times) {
    policy_->charge(run.plan->plan.program, run.plan->contended[slice], ns);
    if (options_.charge_log != nullptr) options_.charge_log->charged(run.plan->plan.program, ns);
  }
}

void GangScheduler::count_ahead(const RunState& run, uint32_t slice, const Gang::Ahead& more) {
  if (run.is_aside) return;
  for (GroupId group : groups_.of(run.plan->plan.slices[slice].id)) {
    Gang::Ahead& ahead = ahead_[group];
    ahead.ns += more.ns;
    ahead.turns += more.turns;
  }
}

void GangScheduler::count_ended(const RunState& run, uint32_t slice, const Gang::Ahead& less) {
  count_ahead(run, slice, {-less.ns, -less.turns});
  const std::vector<GroupId>& groups = run.plan->contended[slice];
  hungry_.insert(groups.begin(), groups.end());
}

}  // namespace gangway
