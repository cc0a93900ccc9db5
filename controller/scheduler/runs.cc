#include "controller/scheduler/runs.h"

#include <algorithm>

#include "controller/plans/reports.h"
#include "controller/scheduler/arguments.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

// Cost of a frame of grants after it is built: for each host a call of the system, later on.
constexpr int64_t kWriteNs = 3'000;

// Client's names ascend, so only runs in flight may still come after a run before this one.
void forget_failed(PlanRecord& plan, RunId before) {
  auto last = plan.failed.lower_bound(before);
  for (int64_t n = 0; n < plan.plan->runs_in_flight_max && last != plan.failed.begin(); ++n) --last;
  plan.failed.erase(plan.failed.begin(), last);
}

}  // namespace

Error not_committed(const PlanRecord& plan, const Error& why) {
  return {ErrorKind::kCancelled,
          cat("run of \"", plan.plan->name,
              "\": nothing was committed, since the run before it did not commit: ", why.message()),
          {.program = plan.plan->name},
          "handle the error of that run, then run again"};
}

RunTable::RunTable(const Clock& clock, HostTable& hosts, PlanTable& plans, ObjectTable& objects,
                   const ProgramNames& names, Callbacks callbacks, std::unique_ptr<Policy> policy,
                   std::shared_ptr<ChargeLog> charge_log)
    : hosts_(hosts),
      plans_(plans),
      objects_(objects),
      names_(names),
      callbacks_(std::move(callbacks)),
      clock_(clock),
      admission_(hosts, objects, names),
      fast_path_(callbacks_.warn),
      gangs_(std::move(policy), [this](auto ranges) { send_grants(std::move(ranges)); },
             {.charge_log = std::move(charge_log)}) {
  gangs_.watch_sequence_points(callbacks_.at_sequence_point);
}

// Never the name of an earlier run: late reports of a host about that run are ignored.
RunId RunTable::new_id() { return RunId(++last_run_); }

void RunTable::submit(SessionId session, RunFrame request, int64_t since_ns,
                      const std::optional<Error>& refused) {
  auto owned = std::make_unique<RunRecord>();
  RunRecord& run = *owned;
  run.id = new_id();
  TraceSpan span("submit", run.id.value);
  run.session = session;
  run.request = std::move(request);
  try {
    GW_REQUIRE(by_client_.emplace(std::make_pair(session, run.request.run), run.id).second, "run ",
               run.request.run, ": the name is taken");
    runs_.emplace(run.id, std::move(owned));
    start(run, refused);
  } catch (const Error& error) {
    if (owned != nullptr) {  // Never entered the table.
      callbacks_.ended(session, {.run = run.request.run, .error = error}, false);
      return;
    }
    run.fail(error, true);
    return end(run);
  }
  if (run.request.time_limit_ms > 0) set_time_limit(run, since_ns);
  may_go_on_.insert(scope_of(run));
  admit_all();
  gangs_.pump(clock_.now_ns());
  objects_.flush();
}

void RunTable::start(RunRecord& run, const std::optional<Error>& refused) {
  PlanRecord& plan = plans_.at(run.request.plan, run.session);
  run.plan = &plan;
  ++plan.runs;
  ++plan.scope_runs->open;
  std::optional<Error> wrong = plan.broken ? plan.broken : refused;
  try {
    if (!wrong) bind_arguments(run, objects_);
  } catch (const Error& error) {
    wrong = error;
  }
  add_outputs(run, objects_);  // Runs that take them are told what is wrong.
  if (wrong) throw *wrong;
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

// A run's hosts hear of the runs whose outputs it takes before they hear of it.
bool RunTable::makers_are_prepared(RunRecord& run) {
  for (RunId maker : run.makers) {
    const auto found = runs_.find(maker);
    if (found == runs_.end() || found->second->prepared) continue;
    waits_for_[maker].insert(scope_of(run));
    return false;
  }
  return true;
}

// Whether an argument will never be there, since the run that should have made it ended before its
// hosts heard of it. Then this run has failed with that error.
bool RunTable::lacks_argument(RunRecord& run) {
  if (run.makers.empty()) return false;
  const Plan& plan = *run.plan->plan;
  for (const ArgumentFrame& argument : run.request.arguments) {
    if (!argument.bytes.empty()) continue;
    const auto& failed = objects_.find(argument.array, run.session).failed;
    if (failed == nullptr) continue;
    run.lacks = failed;
    run.fail(Error(failed->kind(),
                   cat("run of \"", plan.name, "\": input \"",
                       plan.values[plan.inputs[argument.input]].name,
                       "\" is not there, since the run that should have made it did not run: ",
                       failed->message()),
                   {.program = plan.name}, failed->hint()),
             true);
    return true;
  }
  return false;
}

// Returns false if the run waits for another run, or for memory.
bool RunTable::admit_first(RunRecord& run) {
  // A host of the run's plan is lost, and the others may not have ended earlier runs.
  if (run.plan->broken) {
    run.fail(*run.plan->broken, true);
    end(run);
    return true;
  }
  if (!held_.empty() && is_held(run.session)) return false;
  if (!makers_are_prepared(run) || !admission_.has_room(run)) return false;
  if (lacks_argument(run)) {
    end(run);
    return true;
  }
  const Result<bool> admitted = admission_.admit(run);
  if (admitted.ok() && !admitted.value()) {
    if (admission_.lacks_memory(run)) fast_path_.waits_for_memory(*run.plan);
    return false;
  }
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

// Why the run may not commit: the run after which it comes ended without a commit. Null: that run
// has committed, or its hosts will report it.
const Error* RunTable::broken_chain(const RunRecord& run) {
  PlanRecord& plan = *run.plan;
  if (!plan.has_commit) return nullptr;
  if (run.request.after == RunId()) {  // A new chain.
    forget_failed(plan, run.request.run);
    return nullptr;
  }
  forget_failed(plan, run.request.after);
  const auto failed = plan.failed.find(run.request.after);
  return failed == plan.failed.end() ? nullptr : &failed->second;
}

void RunTable::prepare(RunRecord& run) {
  TraceSpan span("prepare", run.id.value, 0, TraceMark::kRunLeaves);
  PlanRecord& plan = *run.plan;
  leave_waiting(run);
  run.prepared = true;
  plan.scope_runs->prepared.push_back(run.id);
  admission_.began(run);
  const RunRecord* after = find(run.session, run.request.after);
  // Moved, since nobody reads them here any more and tensors among them may take 16 KiB.
  const Frame frame =
      encode(PrepareFrame{plan.prepared++,
                          {.plan = plan.on_hosts,
                           .run = run.id,
                           .after = after == nullptr ? RunId() : after->id,
                           .arguments = std::move(run.request.arguments),
                           .outputs = std::move(run.request.outputs),
                           .source_positions = std::move(run.request.source_positions)}});
  objects_.flush();  // Hosts hear first of what was freed for it.
  run.pending = {plan.hosts.begin(), plan.hosts.end()};
  send(plan, frame);
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

// One frame for each stretch of ranges that go to the same hosts, those of their slice.
void RunTable::send_grants(std::vector<GrantRange> ranges) {
  TraceSpan span("grant", ranges.front().run.value);
  const int64_t began_ns = clock_.now_ns();
  int64_t frames = 0, writes = 0;
  for (size_t i = 0; i < ranges.size(); ++frames) {
    const std::vector<HostId>& hosts = hosts_of(ranges[i]);
    GrantFrame frame;
    for (; i < ranges.size(); ++i) {
      const std::vector<HostId>& next = hosts_of(ranges[i]);
      if (&next != &hosts && next != hosts) break;
      frame.ranges.push_back(ranges[i]);
    }
    const Frame encoded = encode(std::move(frame));
    for (HostId host : hosts) hosts_.send(host, encoded);
    writes += static_cast<int64_t>(hosts.size());
  }
  gangs_.grant_took((clock_.now_ns() - began_ns) / frames, writes * kWriteNs / frames);
}

const std::vector<HostId>& RunTable::hosts_of(const GrantRange& range) const {
  const PlanRecord& plan = *runs_.at(range.run)->plan;
  return range.slice == kEverySlice ? plan.hosts : plan.layouts[range.slice]->holders;
}

void RunTable::send(const PlanRecord& plan, const Frame& frame) {
  for (HostId host : plan.hosts) hosts_.send(host, frame);
}

void RunTable::progress(HostId host, const ProgressFrame& frame) {
  take_times(host, frame.times);
  gangs_.pump(clock_.now_ns());
}

// The host of a slice's first device reports the slice's positions. Reports of other hosts carry
// the same facts and are ignored.
void RunTable::take_times(HostId host, const std::vector<SectionTime>& times) {
  for (const SectionTime& time : times) {
    const auto found = runs_.find(time.run);
    if (found == runs_.end() || found->second->plan == nullptr) continue;
    const auto& layouts = found->second->plan->layouts;
    GW_REQUIRE(time.slice < layouts.size(), "progress: run ", time.run, " has ", layouts.size(),
               " slices, got slice ", time.slice);
    if (layouts[time.slice]->holders[0] == host) gangs_.progress(time, clock_.now_ns());
  }
}

void RunTable::in_order(SessionId session, StateScope scope, std::function<void(Ticket)> send) {
  gangs_.in_order(session, scope.id, std::move(send));
  gangs_.pump(clock_.now_ns());
}

void RunTable::watch_states(SessionId session, StateScope scope) {
  gangs_.watch(session, scope.id);
  gangs_.pump(clock_.now_ns());
}

std::set<RunId> RunTable::may_commit(const ScopeRuns& scope) const {
  std::set<RunId> runs;
  std::set<std::pair<PlanId, RunId>> failing;  // Client's names of runs.
  for (const RunId id : scope.prepared) {
    const RunRecord& run = *runs_.at(id);
    const PlanRecord& plan = *run.plan;
    if (!plan.has_commit) continue;
    const RunId after = run.request.after;
    if (run.error || plan.failed.contains(after) || failing.contains({plan.id, after})) {
      failing.insert({plan.id, run.request.run});
    } else if (gangs_.is_begun(id)) {
      runs.insert(id);
    }
  }
  return runs;
}

void RunTable::plan_ready(const PlanRecord& plan) {
  fast_path_.installed(plan);
  const bool by_section = !plan.plan->overlaid && why_no_reports(plan, hosts_).empty();
  gangs_.add_plan(plan.id, gang_plan(plan, by_section));
  gangs_.pump(clock_.now_ns());
}

void RunTable::plan_gone(PlanId plan) {
  fast_path_.gone(plan);
  gangs_.remove_plan(plan);
  gangs_.pump(clock_.now_ns());
}

std::map<SessionId, RunTable::Counts> RunTable::counts() const {
  std::map<SessionId, Counts> counts;
  for (const auto& [id, run] : runs_) {
    Counts& of_session = counts[run->session];
    ++(run->prepared ? of_session.in_flight : of_session.waiting);
  }
  return counts;
}

void RunTable::host_done(HostId host, RunDoneFrame done) {
  TraceSpan span("host done", done.run.value);
  const auto found = runs_.find(done.run);
  if (found == runs_.end() || !found->second->pending.contains(host)) return;
  RunRecord& run = *found->second;
  // For a run that failed on the way, nobody knows how long the rest would have taken.
  const bool tells_times = !done.times.empty() && !done.error;
  if (tells_times) take_times(host, done.times);
  if (done.error) {
    Error error = *done.error;
    error.add_where({.program = run.plan->plan->name, .host = hosts_.at(host).info.name});
    run.fail(error, done.is_origin);
  }
  for (SmallOutput& output : done.outputs) {
    const bool known = std::any_of(run.outputs.begin(), run.outputs.end(), [&](const auto& other) {
      return other.output == output.output;
    });
    if (!known) run.outputs.push_back(std::move(output));
  }
  run.pending.erase(host);
  if (run.pending.empty()) {
    end(run);
    pump();
  } else if (done.refused && done.error) {
    give_up_plan(run, host, *done.error);
    pump();
  } else if (tells_times) {
    gangs_.pump(clock_.now_ns());
  }
}

void RunTable::end(RunRecord& run) {
  leave_waiting(run);
  admission_.ended(run);
  gangs_.ended(run.id, !run.error);
  if (run.plan != nullptr) may_go_on_.insert(scope_of(run));
  if (run.error && !run.prepared) fail_outputs(run);
  for (ArrayId array : run.kept) objects_.drop(array);
  if (!run.reported) {
    say_why(run);
    tell(run);
  }
  const std::unique_ptr<RunRecord> ended = std::move(runs_.at(run.id));
  runs_.erase(ended->id);
  if (ended->plan == nullptr) return;
  ScopeRuns& scope = *ended->plan->scope_runs;
  --scope.open;
  if (ended->prepared) std::erase(scope.prepared, ended->id);
  count_commit(*ended);
  plans_.run_ended(*ended->plan);
}

void RunTable::count_commit(const RunRecord& run) {
  const PlanRecord& plan = *run.plan;
  const bool committed = plan.has_commit && run.prepared && !run.error;
  if (committed) *plan.version = plan.version->next();
  if (gangs_.is_watched(run.session, plan.scope)) callbacks_.watched_ended(run, committed);
}

// Runs that take these outputs, also those that wait already, are told why they are not there.
void RunTable::fail_outputs(const RunRecord& run) {
  const auto why = run.lacks != nullptr ? run.lacks : std::make_shared<const Error>(*run.error);
  for (ArrayId array : run.kept) {
    ArrayRecord& record = objects_.find(array, run.session);
    if (record.maker == run.id) record.failed = why;
  }
}

// Hosts report that the run before it did not commit; only the controller knows the reason.
void RunTable::say_why(RunRecord& run) {
  if (!run.prepared || run.stopping || !run.error) return;
  if (run.error->kind() != ErrorKind::kCancelled) return;
  const auto before = run.plan->failed.find(run.request.after);
  if (before == run.plan->failed.end()) return;
  run.error = before->second;
  run.behind = true;
}

// Runs that come after a failed one do not commit. A broken plan refuses them itself.
void RunTable::break_chain(const RunRecord& run) {
  if (run.error && run.plan->has_commit && !run.plan->broken)
    run.plan->failed.emplace(run.request.run,
                             run.behind ? *run.error : not_committed(*run.plan, *run.error));
}

void RunTable::tell(RunRecord& run) {
  run.reported = true;
  if (run.plan != nullptr) break_chain(run);
  drop_deadline(run);
  if (run.error && !run.stuck.empty()) run.error->add_context(run.stuck);
  by_client_.erase({run.session, run.request.run});
  callbacks_.ended(run.session,
                   {.run = run.request.run,
                    .error = run.error,
                    .is_origin = run.is_origin,
                    .outputs = std::move(run.outputs)},
                   run.stopping && run.error);
}

RunRecord* RunTable::find(SessionId session, RunId client_run) {
  const auto at = by_client_.find({session, client_run});
  return at == by_client_.end() ? nullptr : runs_.at(at->second).get();
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
    // Other hosts may wait for the lost one's part as long as they live: nobody waits for them.
    if (runs_.contains(id)) end(*runs_.at(id));
  }
  pump();
}

void RunTable::note_stuck(HostId host, const StuckDevice& stuck) {
  const auto found = runs_.find(stuck.run);
  if (found == runs_.end() || !found->second->pending.contains(host)) return;
  RunRecord& run = *found->second;
  gangs_.set_aside(stuck.run);
  // A device that waits for others is not why the run does not end, if one is known that is stuck.
  if (!run.stuck.empty() && stuck.waits && !run.stuck_waits) return;
  run.stuck = cat("host \"", hosts_.at(host).info.name, "\": ", to_text(stuck));
  run.stuck_at = {host, stuck.device};
  run.stuck_waits = stuck.waits;
}

// The next heartbeat of its host reports another device at which the run is stuck, and sets the run
// aside again.
void RunTable::forget_stuck(HostId host, const StuckDevice& stuck) {
  const auto found = runs_.find(stuck.run);
  if (found == runs_.end()) return;
  gangs_.take_back(stuck.run);
  if (found->second->stuck_at == DeviceRef{host, stuck.device}) found->second->stuck.clear();
}

void RunTable::session_closed(SessionId session) {
  held_.erase(session);
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

}  // namespace gangway
