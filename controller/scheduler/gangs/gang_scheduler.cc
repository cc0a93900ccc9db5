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
  held_.erase(program);
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
    const auto slices = used_.find(program);
    if (slices == used_.end()) continue;
    double device_ns = 0;
    for (const auto& [slice, use] : slices->second)
      device_ns +=
          static_cast<double>(use.time.last_second_ns(now_ns)) * static_cast<double>(use.devices);
    const double all_ns = static_cast<double>(DeviceTime::kWindowNs) * static_cast<double>(devices);
    // A slice that went within the second counts, though its devices do not.
    used[program] = std::min(1.0, device_ns / all_ns);
  }
  return used;
}

// Slices that have not run within the second are dropped, and looked for once a second, so that a
// program whose plans lie on many slices pays nothing for them with each report.
void GangScheduler::note_use(const RunState& run, uint32_t slice, int64_t busy_ns, int64_t now_ns) {
  const GangPlan::Slice& of = run.plan->plan.slices[slice];
  SliceUse& use = used_[run.plan->plan.program][of.id];
  use.devices = of.devices.size();
  use.time.add(now_ns, busy_ns);
  if (now_ns - looked_at_use_ns_ < DeviceTime::kWindowNs) return;
  looked_at_use_ns_ = now_ns;
  for (auto& [program, slices] : used_) {
    std::erase_if(slices,
                  [&](const auto& item) { return item.second.time.last_second_ns(now_ns) == 0; });
  }
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

// Gangs wait by group: they leave, and come back when pump() looks at their runs again.
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
  std::vector<LastOfScope>& live = live_[run.plan->plan.program];
  run.idled = live.empty();
  run.place = ++last_place_;
  const OrderKey key = order_of(run);
  orders_[key][run.place] = {.run = id};
  const auto last = std::ranges::find(live, key.second, &LastOfScope::scope);
  if (last == live.end()) {
    live.push_back({key.second, &run});
  } else {
    run.before = std::exchange(last->run, &run);
    run.before->behind = &run;
  }
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

void GangScheduler::let_go_on(SessionId program) {
  if (held_.erase(program) == 0) return;
  const OrderKey first{program, 0};
  for (auto at = orders_.lower_bound(first); at != orders_.end() && at->first.first == program;)
    dirty_.insert((at++)->first);
  for (auto at = watched_.lower_bound(first); at != watched_.end() && at->first == program;)
    dirty_.insert(*at++);
}

// Runs are prepared in the order of their scope, so entries before the first unprepared run may go.
bool GangScheduler::is_held(const OrderKey& key) const {
  if (held_.empty() || !held_.contains(key.first)) return false;
  const auto order = orders_.find(key);
  if (order == orders_.end()) return true;
  const auto run = std::ranges::find_if(
      order->second, [](const auto& item) { return item.second.send == nullptr; });
  return run == order->second.end() || !runs_.at(run->second.run).is_prepared;
}

void GangScheduler::watch(SessionId session, uint64_t scope) {
  watched_.insert({session, scope});
  dirty_.insert({session, scope});
}

void GangScheduler::show_sequence_point(const OrderKey& key, RunId behind) {
  if (!is_watched(key.first, key.second)) return;
  at_sequence_point_({key.first, key.second, behind, [this] {
                        flush();
                        return std::exchange(next_ticket_, next_ticket_.next());
                      }});
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
    if (is_ok && rest.was.ns > 0) note_use(run, s, rest.was.ns, now_ns_);  // No report of it came.
    if (!is_ok && rest.charged_ns != 0) charge(run, s, -rest.charged_ns);
    if (is_ok && options_.charge_log != nullptr)
      options_.charge_log->took(run.plan->plan.program, rest.charged_ns);
  }
  const OrderKey key = order_of(run);
  if (const auto order = orders_.find(key); order != orders_.end()) {
    order->second.erase(run.place);
    dirty_.insert(key);
  }
  if (run.before != nullptr) run.before->behind = run.behind;
  if (run.behind != nullptr) {
    run.behind->before = run.before;
  } else {
    std::vector<LastOfScope>& live = live_.at(key.first);
    const auto last = std::ranges::find(live, key.second, &LastOfScope::scope);
    last->run = run.before;
    if (run.before == nullptr) live.erase(last);
  }
  dirty_.insert(run.takers.begin(), run.takers.end());
  runs_.erase(found);
}

// Lets the first entries of the order go, up to a run that is not granted whole.
void GangScheduler::advance(const OrderKey& key) {
  const auto order = orders_.find(key);
  if (is_held(key)) return;
  if (order == orders_.end()) return show_sequence_point(key, RunId());
  while (!order->second.empty()) {
    if (is_held(key)) return;
    const auto first = order->second.begin();
    if (first->second.send) {
      const auto send = std::move(first->second.send);
      order->second.erase(first);
      flush();
      send(std::exchange(next_ticket_, next_ticket_.next()));
      continue;
    }
    RunState& run = runs_.at(first->second.run);
    if (run.gangs.empty()) show_sequence_point(key, run.id);
    if (!run.is_prepared || not_before(run) != RunId()) return;
    if (run.gangs.empty()) start(run);
    refresh(run);
    if (!is_granted_whole(run)) return;
    if (!std::exchange(run.was_granted_whole, true))
      dirty_.insert(run.takers.begin(), run.takers.end());
    if (run.plan->plan.is_sequential) return;  // It is removed when it has ended.
    order->second.erase(first);
  }
  orders_.erase(order);
  if (!is_held(key)) show_sequence_point(key, RunId());
}

// A run that must be granted whole before this one begins. It has to end before that where this one
// is dispatched sequentially.
RunId GangScheduler::not_before(const RunState& run) const {
  if (!run.gangs.empty()) return RunId();  // It has begun.
  const bool is_sequential = run.plan->plan.is_sequential;
  for (RunId maker : run.makers) {
    if (is_sequential ? runs_.contains(maker) : !is_granted_whole(maker)) return maker;
  }
  if (!is_sequential) return RunId();
  return run.before == nullptr ? RunId() : run.before->id;
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

// The first run of its scope, a run whose outputs it takes, or one of another program that has
// turns ahead on its devices.
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

// --- Reports of devices

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
  if (time.position_end <= first) return;  // Reported before.
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
  note_use(run, time.slice, time.busy_ns, now_ns);
  dirty_.insert(order_of(run));
}

void GangScheduler::charge(const RunState& run, uint32_t slice, int64_t ns) {
  policy_->charge(run.plan->plan.program, run.plan->contended[slice], ns);
  if (options_.charge_log != nullptr) options_.charge_log->charged(run.plan->plan.program, ns);
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
