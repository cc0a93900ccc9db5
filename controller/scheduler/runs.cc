#include "controller/scheduler/runs.h"

#include <algorithm>

#include "controller/scheduler/arguments.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kTimeLimitMaxMs = int64_t{1} << 42;  // 139 years: fits in nanoseconds.

// What the runs are told that were enqueued behind this one.
Error not_committed(const RunRecord& run) {
  return {ErrorKind::kCancelled,
          cat("run of \"", run.plan->plan->name,
              "\": nothing was committed, since the run before it did not commit: ",
              run.error->message()),
          {.program = run.plan->plan->name},
          "handle the error of that run, then run again"};
}

}  // namespace

RunTable::RunTable(const Clock& clock, HostTable& hosts, PlanTable& plans, ObjectTable& objects,
                   Callbacks callbacks, std::unique_ptr<Policy> policy)
    : hosts_(hosts),
      plans_(plans),
      objects_(objects),
      callbacks_(std::move(callbacks)),
      clock_(clock),
      admission_(hosts, objects, callbacks_.owner_name),
      gangs_(std::move(policy), [this](auto ranges) { send_grants(std::move(ranges)); }) {}

void RunTable::submit(SessionId session, RunFrame request, int64_t now_ns) {
  auto owned = std::make_unique<RunRecord>();
  RunRecord& run = *owned;
  run.id = RunId(++last_run_);
  TraceSpan span("submit", run.id.value);
  run.session = session;
  run.request = std::move(request);
  try {
    GW_REQUIRE(by_client_.emplace(std::make_pair(session, run.request.run), run.id).second, "run ",
               run.request.run, ": the name is taken");
    runs_.emplace(run.id, std::move(owned));
    start(run);
  } catch (const Error& error) {
    if (owned != nullptr) {  // Never entered the table.
      callbacks_.ended(session, {.run = run.request.run, .error = error});
      return;
    }
    run.fail(error, true);
    return end(run);
  }
  if (run.request.time_limit_ms > 0) {
    set_deadline(run, now_ns + std::min(run.request.time_limit_ms, kTimeLimitMaxMs) * kMs);
  }
  may_go_on_.insert(scope_of(run));
  admit_all();
  gangs_.pump(now_ns);
  objects_.flush();
}

void RunTable::start(RunRecord& run) {
  PlanRecord& plan = plans_.at(run.request.plan, run.session);
  if (plan.broken) throw *plan.broken;
  run.plan = &plan;
  ++plan.runs;
  bind_arguments(run, objects_);
  waiting_[scope_of(run)].insert(run.id);
  gangs_.submit(run.id, plan.id, run.makers);
}

void RunTable::pump() {
  objects_.flush();
  for (RunId id : admission_.short_runs()) {
    if (const auto run = runs_.find(id); run != runs_.end()) admit(scope_of(*run->second));
  }
  admit_all();
  gangs_.pump(clock_.now_ns());
  objects_.flush();
}

void RunTable::admit_all() {
  while (!may_go_on_.empty()) admit(may_go_on_.extract(may_go_on_.begin()).value());
}

// Admits the runs of the scope one after another, as far as there is room.
void RunTable::admit(const ScopeKey& scope) {
  for (auto all = waiting_.find(scope); all != waiting_.end(); all = waiting_.find(scope)) {
    if (!admit_first(*runs_.at(*all->second.begin()))) return;
  }
}

// Its hosts hear of the runs whose outputs it takes before they hear of it.
bool RunTable::makers_are_prepared(RunRecord& run) {
  for (RunId maker : run.makers) {
    const auto found = runs_.find(maker);
    if (found == runs_.end() || found->second->prepared) continue;
    waits_for_[maker].insert(scope_of(run));
    return false;
  }
  return true;
}

// False: it waits for another run, or for memory.
bool RunTable::admit_first(RunRecord& run) {
  if (!makers_are_prepared(run) || !admission_.has_room(run)) return false;
  const Result<bool> admitted = admission_.admit(run);
  if (admitted.ok() && !admitted.value()) return false;
  const Error* broken = admitted.ok() ? broken_chain(run) : &admitted.error();
  if (broken == nullptr) {
    prepare(run);
  } else {
    run.behind = admitted.ok();
    run.fail(*broken, true);
    end(run);
  }
  return true;
}

// Why the run may not commit: the one after which it comes has ended without. Null: that one has
// committed, or its hosts will tell.
const Error* RunTable::broken_chain(const RunRecord& run) {
  PlanRecord& plan = *run.plan;
  if (!plan.has_commit) return nullptr;
  if (run.request.after == RunId()) {  // A new chain: nobody comes after the old one's any more.
    plan.failed.clear();
    return nullptr;
  }
  plan.failed.erase(plan.failed.begin(), plan.failed.lower_bound(run.request.after));
  const auto failed = plan.failed.find(run.request.after);
  return failed == plan.failed.end() ? nullptr : &failed->second;
}

void RunTable::prepare(RunRecord& run) {
  TraceSpan span("prepare", run.id.value);
  PlanRecord& plan = *run.plan;
  leave_waiting(run);
  run.prepared = true;
  admission_.began(run);
  PrepareFrame frame{plan.prepared++, run.request};
  frame.run.run = run.id;
  const RunRecord* after = find(run.session, run.request.after);
  frame.run.after = after == nullptr ? RunId() : after->id;
  frame.run.time_limit_ms = 0;
  objects_.flush();  // The hosts hear first of what was freed for it.
  run.pending = {plan.hosts.begin(), plan.hosts.end()};
  send(plan, encode(frame));
  gangs_.prepared(run.id);
}

void RunTable::leave_waiting(const RunRecord& run) {
  if (run.plan == nullptr) return;
  if (const auto others = waits_for_.extract(run.id); !others.empty())
    may_go_on_.insert(others.mapped().begin(), others.mapped().end());
  const auto all = waiting_.find(scope_of(run));
  if (all == waiting_.end()) return;
  all->second.erase(run.id);
  if (all->second.empty()) waiting_.erase(all);
}

// One frame for each stretch of ranges that go to the same hosts.
void RunTable::send_grants(std::vector<GrantRange> ranges) {
  TraceSpan span("grant", ranges.front().run.value);
  const int64_t began_ns = clock_.now_ns();
  int64_t frames = 0;
  for (size_t i = 0; i < ranges.size(); ++frames) {
    const PlanRecord& plan = *runs_.at(ranges[i].run)->plan;
    GrantFrame frame;
    for (; i < ranges.size(); ++i) {
      const PlanRecord& next = *runs_.at(ranges[i].run)->plan;
      if (&next != &plan && next.hosts != plan.hosts) break;
      frame.ranges.push_back(std::move(ranges[i]));
    }
    send(plan, encode(frame));
  }
  gangs_.grant_took((clock_.now_ns() - began_ns) / frames);
}

void RunTable::send(const PlanRecord& plan, const Frame& frame) {
  for (HostId host : plan.hosts) hosts_.send(host, frame);
}

// A slice is told of by the host of its first device. Who else says so says the same.
void RunTable::progress(HostId host, const ProgressFrame& frame) {
  for (const SectionTime& time : frame.times) {
    const auto found = runs_.find(time.run);
    if (found == runs_.end() || found->second->plan == nullptr) continue;
    const auto& layouts = found->second->plan->layouts;
    GW_REQUIRE(time.slice < layouts.size(), "progress: run ", time.run, " has ", layouts.size(),
               " slices, got slice ", time.slice);
    if (layouts[time.slice]->holders[0] == host) gangs_.progress(time, clock_.now_ns());
  }
  gangs_.pump(clock_.now_ns());
}

void RunTable::in_order(SessionId session, StateScope scope, std::function<void(Ticket)> send) {
  gangs_.in_order(session, scope.id, std::move(send));
  gangs_.pump(clock_.now_ns());
}

void RunTable::plan_ready(const PlanRecord& plan) {
  // What is launched on a card is not done, and it does not tell.
  const bool has_reports = std::ranges::none_of(
      plan.hosts, [this](HostId host) { return hosts_.at(host).info.kind == "cuda"; });
  gangs_.add_plan(plan.id, gang_plan(plan, has_reports));
  gangs_.pump(clock_.now_ns());
}

void RunTable::plan_gone(PlanId plan) {
  gangs_.remove_plan(plan);
  gangs_.pump(clock_.now_ns());
}

RunTable::Counts RunTable::counts(SessionId session) const {
  Counts counts;
  for (const auto& [id, run] : runs_) {
    if (run->session == session) ++(run->prepared ? counts.in_flight : counts.waiting);
  }
  return counts;
}

void RunTable::host_done(HostId host, RunDoneFrame done) {
  TraceSpan span("host done", done.run.value);
  const auto found = runs_.find(done.run);
  if (found == runs_.end() || !found->second->pending.contains(host)) return;
  RunRecord& run = *found->second;
  // Of a run that failed somewhere on the way, nobody knows what the rest would have taken.
  if (!done.times.empty() && !done.error) progress(host, {std::move(done.times)});
  if (done.error) {
    Error error = *done.error;
    error.add_where({.program = run.plan->plan->name, .host = hosts_.at(host).info.name});
    run.fail(error, done.culprit);
  }
  for (SmallOutput& output : done.outputs) {
    const bool known = std::any_of(run.outputs.begin(), run.outputs.end(), [&](const auto& other) {
      return other.output == output.output;
    });
    if (!known) run.outputs.push_back(std::move(output));
  }
  host_finished(run, host);
}

void RunTable::host_finished(RunRecord& run, HostId host) {
  run.pending.erase(host);
  if (!run.pending.empty()) return;
  end(run);
  pump();
}

void RunTable::end(RunRecord& run) {
  leave_waiting(run);
  admission_.ended(run);
  gangs_.ended(run.id, !run.error);
  if (run.plan != nullptr) may_go_on_.insert(scope_of(run));
  for (ArrayId array : run.kept) objects_.drop(array);
  if (run.deadline_ns != 0) deadlines_.erase({run.deadline_ns, run.id});
  const std::unique_ptr<RunRecord> ended = std::move(runs_.at(run.id));
  runs_.erase(ended->id);
  if (ended->plan != nullptr) {
    if (!ended->told) break_chain(*ended);
    plans_.run_ended(*ended->plan);
  }
  if (!ended->told) tell(*ended);
}

// Runs that come after one that failed do not commit.
void RunTable::break_chain(const RunRecord& run) {
  if (run.error && run.plan->has_commit)
    run.plan->failed.emplace(run.request.run, run.behind ? *run.error : not_committed(run));
}

void RunTable::tell(RunRecord& run) {
  run.told = true;
  if (run.error && !run.stuck.empty()) run.error->add_context(run.stuck);
  by_client_.erase({run.session, run.request.run});
  callbacks_.ended(run.session, {.run = run.request.run,
                                 .error = run.error,
                                 .culprit = run.culprit,
                                 .outputs = std::move(run.outputs)});
}

RunRecord* RunTable::find(SessionId session, RunId client_run) {
  const auto at = by_client_.find({session, client_run});
  return at == by_client_.end() ? nullptr : runs_.at(at->second).get();
}

void RunTable::cancel(SessionId session, RunId client_run, const Error& why) {
  if (RunRecord* run = find(session, client_run)) ask_to_stop(*run, why);
}

// A run that was not prepared ends here; the hosts end one that was, and they alone know whether
// the request came before its commit.
void RunTable::ask_to_stop(RunRecord& run, const Error& why) {
  if (run.stopping) return;
  run.stopping = true;
  if (!run.prepared) {
    run.fail(why, false);
    end(run);
    return pump();
  }
  const Frame frame = encode(CancelFrame{run.id, why});
  for (HostId host : run.pending) hosts_.send(host, frame);
}

void RunTable::host_lost(HostId host, const Error& why) {
  std::vector<RunId> hit;
  for (const auto& [id, run] : runs_) {
    const auto& hosts = run->plan->hosts;
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) hit.push_back(id);
  }
  for (RunId id : hit) {
    const auto at = runs_.find(id);
    if (at == runs_.end()) continue;
    RunRecord& run = *at->second;
    if (run.prepared && !run.pending.contains(host)) continue;  // Its part had ended.
    Error error = why;
    error.add_where({.program = run.plan->plan->name});
    run.fail(error, true);
    run.pending.erase(host);
    ask_to_stop(run, error);
    // The others may wait for the lost one's part for as long as they live: nobody waits for them.
    if (runs_.contains(id)) end(*runs_.at(id));
  }
  pump();
}

void RunTable::note_stuck(HostId host, const StuckDevice& stuck) {
  const auto found = runs_.find(stuck.run);
  if (found == runs_.end() || !found->second->pending.contains(host)) return;
  RunRecord& run = *found->second;
  gangs_.set_aside(stuck.run);
  // Who waits for others is not why the run does not end, if one is known that does not.
  if (!run.stuck.empty() && stuck.waits && !run.stuck_waits) return;
  run.stuck = cat("host \"", hosts_.at(host).info.name, "\": ", to_text(stuck));
  run.stuck_waits = stuck.waits;
}

void RunTable::session_closed(SessionId session) {
  gangs_.drop_in_order(session);
  std::vector<RunId> owned;
  for (const auto& [id, run] : runs_) {
    if (run->session == session) owned.push_back(id);
  }
  for (RunId id : owned) {
    const auto at = runs_.find(id);
    if (at == runs_.end()) continue;
    ask_to_stop(*at->second, Error(ErrorKind::kCancelled, "run: its client is gone"));
  }
  gangs_.forget(session);
}

std::optional<int64_t> RunTable::next_deadline_ns() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

void RunTable::set_deadline(RunRecord& run, int64_t time_ns) {
  run.deadline_ns = time_ns;
  deadlines_.emplace(time_ns, run.id);
}

void RunTable::forgive_standstill(int64_t late_ns) {
  std::vector<RunRecord*> asked;
  for (const auto& [time_ns, id] : deadlines_) {
    if (runs_.at(id)->past_limit) asked.push_back(runs_.at(id).get());
  }
  for (RunRecord* run : asked) {
    deadlines_.erase({run->deadline_ns, run->id});
    set_deadline(*run, run->deadline_ns + late_ns);
  }
}

void RunTable::expire(int64_t now_ns, int64_t late_ns) {
  if (late_ns > 0) forgive_standstill(late_ns);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    const RunId id = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    RunRecord& run = *runs_.at(id);
    run.deadline_ns = 0;
    if (run.past_limit) {
      tell_unanswered(run);
      continue;
    }
    run.past_limit = true;
    if (run.prepared) set_deadline(run, now_ns + kAnswerMs * kMs);
    ask_to_stop(run, Error(ErrorKind::kCancelled,
                           cat("run of \"", run.plan->plan->name,
                               "\": not done within its limit of ", run.request.time_limit_ms,
                               " ms", run.prepared ? "" : ": it still waited for earlier runs"),
                           {.program = run.plan->plan->name}));
  }
}

void RunTable::tell_unanswered(RunRecord& run) {
  std::string silent;
  for (HostId host : run.pending)
    silent += cat(silent.empty() ? "" : ", ", "\"", hosts_.at(host).info.name, "\"");
  Error error(ErrorKind::kUnavailable,
              cat("run of \"", run.plan->plan->name, "\": not done within its limit of ",
                  run.request.time_limit_ms, " ms, and not ended ", kAnswerMs,
                  " ms after it was cancelled: host ", silent, " has not answered"),
              {.program = run.plan->plan->name},
              "it may still commit: allocate a new slice, and restore state from a checkpoint");
  if (run.error && run.error->kind() != ErrorKind::kCancelled)
    error.add_context(cat("before that: ", run.error->message()));
  run.error = std::move(error);
  run.culprit = true;
  break_chain(run);
  tell(run);
}

}  // namespace gangway
