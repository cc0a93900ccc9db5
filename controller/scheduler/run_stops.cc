// Stops of runs before their end, by their client and by their time limit, and holding all runs of
// a program.
#include <algorithm>
#include <utility>

#include "controller/scheduler/runs.h"

namespace gangway {
namespace {

constexpr int64_t kMs = 1'000'000;

}  // namespace

int64_t time_limit_ns(int64_t time_limit_ms) {
  constexpr int64_t kMaxMs = int64_t{1} << 42;  // 139 years: fits in nanoseconds.
  return std::min(time_limit_ms, kMaxMs) * kMs;
}

Error past_limit(const PlanRecord& plan, int64_t time_limit_ms, const std::string& why) {
  const std::string& name = plan.plan->name;
  return {ErrorKind::kCancelled,
          cat("run of \"", name, "\": not done within its limit of ", time_limit_ms, " ms", why),
          {.program = name}};
}

void RunTable::cancel(SessionId session, RunId client_run, const Error& why) {
  if (RunRecord* run = find(session, client_run)) ask_to_stop(*run, why);
}

void RunTable::hold(SessionId session) {
  held_.insert(session);
  gangs_.hold(session);
  // Runs that were short of memory hold up nobody else meanwhile.
  for (const auto& [scope, waiting] : waiting_) {
    if (scope.first != session) continue;
    for (RunId id : waiting) admission_.leave_line(*runs_.at(id));
  }
  pump();
}

void RunTable::let_go_on(SessionId session) {
  if (held_.erase(session) == 0) return;
  gangs_.let_go_on(session);
  for (const auto& [scope, waiting] : waiting_) {
    if (scope.first == session) may_go_on_.insert(scope);
  }
  pump();
}

// A run that was not prepared ends here; hosts end one that was, since they alone know whether the
// request came before its commit. If the run waits for its turn, they answer when that has come;
// but it can't commit any more, so its client is told at once.
void RunTable::ask_to_stop(RunRecord& run, const Error& why) {
  if (run.stopping) return;
  run.stopping = true;
  if (!run.prepared) {
    run.fail(why, false);
    end(run);
    return pump();
  }
  cancel_on_hosts(run, why);
  const auto wait = wait_of(run);
  if (!wait || wait->may_commit) return;
  run.fail(why, false);
  tell(run);
}

void RunTable::cancel_on_hosts(const RunRecord& run, const Error& why) {
  const Frame frame = encode(CancelFrame{run.id, why});
  for (HostId host : run.pending) hosts_.send(host, frame);
}

// Called when one of its hosts did not take part in a run: the others may be in the middle of a
// collective with it, so they can't use the plan any more. A run of which that host has done its
// part ends as the others report, and may have committed.
void RunTable::give_up_plan(const RunRecord& refused, HostId refusing, const Error& why) {
  if (refused.given_up) return;  // That host had refused another run of it.
  PlanRecord& plan = *refused.plan;
  const std::string& host = hosts_.at(refusing).info.name;
  const Error broken(ErrorKind::kUnavailable,
                     cat("executable \"", plan.plan->name, "\": it is given up, since host \"",
                         host, "\" took no part in a run of it: ", why.message()),
                     {.program = plan.plan->name, .host = host}, "compile the program again");
  give_up(plan, broken, [&](const RunRecord& run) {
    const bool is_done_there = run.prepared && !run.pending.contains(refusing);
    return !is_done_there || run.id == refused.id;
  });
}

void RunTable::give_up(PlanRecord& plan, const Error& why,
                       const std::function<bool(const RunRecord&)>& is_hit) {
  std::vector<RunId> hit;
  for (const auto& [id, run] : runs_) {
    if (run->plan == &plan && !run->given_up && is_hit(*run)) hit.push_back(id);
  }
  plans_.give_up(plan, why);
  for (RunId id : hit) {
    const auto at = runs_.find(id);
    if (at == runs_.end()) continue;
    RunRecord& run = *at->second;
    run.given_up = true;
    run.fail(why, true);
    if (!run.stopping) {
      ask_to_stop(run, why);
      continue;
    }
    // Hosts that were asked to cancel before would go on to wait for one another.
    cancel_on_hosts(run, why);
  }
}

void RunTable::link_broken(HostId a, HostId b, const std::string& why) {
  const std::string pair =
      cat("hosts \"", hosts_.at(a).info.name, "\" and \"", hosts_.at(b).info.name, "\"");
  // The end of a run may end its program, with all its plans: each is looked for anew.
  while (PlanRecord* const plan = plans_.find_over_link(a, b)) {
    const std::string& name = plan->plan->name;
    const Error broken(ErrorKind::kUnavailable,
                       cat("executable \"", name, "\": it is given up, since the link between ",
                           pair, " is broken: ", why),
                       {.program = name},
                       "repair the network between the two, or drain one of them, and compile the "
                       "program again");
    give_up(*plan, broken, [&](const RunRecord& run) {
      return !run.prepared || run.pending.contains(a) || run.pending.contains(b);
    });
  }
  pump();
}

// The run's wait if its devices have not come to it; none if they have, or are stuck.
std::optional<GangScheduler::Wait> RunTable::wait_of(const RunRecord& run) const {
  return run.stuck.empty() ? gangs_.waits_for_turn(run.id) : std::nullopt;
}

std::string RunTable::text_of(const GangScheduler::Wait& wait) const {
  const auto ahead = runs_.find(wait.behind);
  if (ahead == runs_.end()) return ": it still waited for its turn";
  return cat(": it still waited for its turn, behind a run of ",
             names_.holder(ahead->second->session));
}

std::optional<int64_t> RunTable::next_deadline_ns() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

void RunTable::set_time_limit(RunRecord& run, int64_t since_ns) {
  set_deadline(run, since_ns + time_limit_ns(run.request.time_limit_ms));
}

void RunTable::set_deadline(RunRecord& run, int64_t time_ns) {
  drop_deadline(run);
  run.deadline_ns = time_ns;
  deadlines_.emplace(time_ns, run.id);
}

void RunTable::drop_deadline(RunRecord& run) {
  if (run.deadline_ns != 0) deadlines_.erase({std::exchange(run.deadline_ns, 0), run.id});
}

void RunTable::forgive_standstill(int64_t late_ns) {
  std::vector<RunRecord*> asked;
  for (const auto& [time_ns, id] : deadlines_) {
    if (runs_.at(id)->past_limit) asked.push_back(runs_.at(id).get());
  }
  for (RunRecord* run : asked) set_deadline(*run, run->deadline_ns + late_ns);
}

void RunTable::expire(int64_t now_ns, int64_t late_ns) {
  if (late_ns > 0) forgive_standstill(late_ns);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    RunRecord& run = *runs_.at(deadlines_.begin()->second);
    drop_deadline(run);
    if (run.past_limit) {
      report_unanswered(run);
      continue;
    }
    run.past_limit = true;
    if (run.prepared) set_deadline(run, now_ns + kAnswerMs * kMs);
    const auto wait = wait_of(run);
    const std::string why = !run.prepared ? held_.contains(run.session)
                                                ? ": its program is suspended"
                                                : ": it still waited for earlier runs"
                            : wait        ? text_of(*wait)
                                          : "";
    ask_to_stop(run, past_limit(*run.plan, run.request.time_limit_ms, why));
  }
}

void RunTable::report_unanswered(RunRecord& run) {
  const auto wait = wait_of(run);
  if (wait && !wait->may_commit) {
    run.fail(past_limit(*run.plan, run.request.time_limit_ms, text_of(*wait)), false);
    return tell(run);
  }
  std::string silent;
  for (HostId host : run.pending)
    silent += cat(silent.empty() ? "" : ", ", "\"", hosts_.at(host).info.name, "\"");
  const Error limit =
      past_limit(*run.plan, run.request.time_limit_ms,
                 cat(", and not ended ", kAnswerMs, " ms after it was cancelled",
                     wait ? text_of(*wait) : cat(": host ", silent, " has not answered")));
  Error error(ErrorKind::kUnavailable, limit.message(), limit.where(),
              "it may still commit: allocate a new slice, and restore state from a checkpoint");
  if (run.error && run.error->kind() != ErrorKind::kCancelled)
    error.add_context(cat("before that: ", run.error->message()));
  run.error = std::move(error);
  run.is_origin = true;
  tell(run);
}

}  // namespace gangway
