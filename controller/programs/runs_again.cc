#include "controller/programs/runs_again.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "controller/programs/run_path.h"
#include "controller/scheduler/run.h"

namespace gangway {
namespace {

bool is_of_states(const HostTransferFrame& transfer) {
  return transfer.kind == HostTransferKind::kReadState ||
         transfer.kind == HostTransferKind::kWriteState;
}

}  // namespace

PlanId RunsAgain::plan_needed_by(const Message& message) {
  if (const auto* run = std::get_if<RunFrame>(&message)) return run->plan;
  const auto* transfer = std::get_if<HostTransferFrame>(&message);
  return transfer != nullptr && transfer->kind == HostTransferKind::kPut ? transfer->plan
                                                                         : PlanId();
}

std::vector<ArrayId> RunsAgain::created_by(const Message& message) {
  if (const auto* run = std::get_if<RunFrame>(&message)) return run->outputs;
  const auto* transfer = std::get_if<HostTransferFrame>(&message);
  if (transfer != nullptr && transfer->kind == HostTransferKind::kPut) return {transfer->array};
  return {};
}

const Error& RunsAgain::lost() {
  static const Error error(ErrorKind::kUnavailable, "run: a host of its program was lost");
  return error;
}

RunsAgain::ProgramPtr RunsAgain::program_of(SessionId session) const {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : found->second;
}

PlanRecord* RunsAgain::plan_of(const Program& program, PlanId plan) const {
  return tables_.plans.find(plan, program.session);
}

void RunsAgain::begin(SessionId session) {
  ProgramPtr& program = programs_[session];
  if (program != nullptr) return;
  program = std::make_shared<Program>();
  program->session = session;
}

bool RunsAgain::take(SessionId session, RunFrame& run, const std::optional<Error>& refused) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const bool waits = !program->waiting.empty() || program->installing != PlanId() ||
                     lacks_plan(*program, run.plan) || depends(*program, run);
  if (waits) {
    enqueue(program, std::move(run), refused);
  } else if (!refused) {
    track(*program, run, clock_.now_ns());
  }
  return waits;
}

bool RunsAgain::take_transfer(SessionId session, HostTransferFrame& transfer) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const bool is_put = transfer.kind == HostTransferKind::kPut;
  const bool waits =
      (is_of_states(transfer) && !program->waiting.empty()) || program->installing != PlanId() ||
      (is_put && lacks_plan(*program, transfer.plan)) ||
      (!is_put && program->to_be_created.contains(transfer.array)) || depends(*program, transfer);
  if (waits) enqueue(program, std::move(transfer), {});
  return waits;
}

bool RunsAgain::lacks_plan(const Program& program, PlanId plan) const {
  const PlanRecord* const record = plan_of(program, plan);
  return record != nullptr && record->broken && record->comes_with_next_run;
}

bool RunsAgain::any_overflowed(const Program& program) {
  return std::ranges::any_of(program.executables,
                             [](const auto& item) { return item.second.overflowed; });
}

// Whether the message comes behind a run that may still overflow.
bool RunsAgain::depends_on_a_run(const Program& program, const Message& message) const {
  if (std::holds_alternative<FreeFrame>(message)) return false;
  const auto* run = std::get_if<RunFrame>(&message);
  return run != nullptr ? depends(program, *run)
                        : depends(program, std::get<HostTransferFrame>(message));
}

bool RunsAgain::depends(const Program& program, const HostTransferFrame& transfer) const {
  if (any_overflowed(program)) return true;
  if (!is_of_states(transfer)) return false;
  return std::ranges::any_of(program.executables, [&](const auto& item) {
    return !item.second.runs.empty() && plan_of(program, item.first)->scope == transfer.scope.id;
  });
}

bool RunsAgain::depends(const Program& program, const RunFrame& run) const {
  if (any_overflowed(program)) return true;
  const PlanRecord* const plan = plan_of(program, run.plan);
  if (plan == nullptr) return false;
  const auto takes_output_of = [&](const HeldPtr& held) {
    return std::ranges::any_of(run.arguments, [&](const ArgumentFrame& argument) {
      return argument.bytes.empty() &&
             std::ranges::find(held->frame.outputs, argument.array) != held->frame.outputs.end();
    });
  };
  return std::ranges::any_of(program.executables, [&](const auto& item) {
    const auto& [id, executable] = item;
    if (executable.runs.empty()) return false;
    // A run of the same executable runs again with those before it, unless it begins a new chain:
    // then it could commit first, and they would commit behind it.
    if (id == run.plan) return plan->has_commit && run.after != executable.runs.back()->frame.run;
    return plan_of(program, id)->scope == plan->scope ||
           std::ranges::any_of(executable.runs, takes_output_of);
  });
}

void RunsAgain::enqueue(const ProgramPtr& program, Message&& message,
                        const std::optional<Error>& refused) {
  program->waiting.push_back({.message = std::move(message),
                              .refused = refused,
                              .kept = {},
                              .open = {},
                              .since_ns = clock_.now_ns()});
  Waiting& waiting = program->waiting.back();
  const std::vector<ArrayId> created = created_by(waiting.message);
  program->to_be_created.insert(created.begin(), created.end());
  if (const auto* run = std::get_if<RunFrame>(&waiting.message)) {
    keep_arguments(*program, *run, waiting.kept);
    waiting.open = counted_open(*program, run->plan);
  }
  wake(program);
}

// Remembers a run that is submitted now, if it may overflow.
void RunsAgain::track(Program& program, const RunFrame& run, int64_t since_ns) {
  const PlanRecord* const plan = plan_of(program, run.plan);
  if (plan == nullptr || !plan->may_overflow || plan->broken) return;
  if (program.by_run.contains(run.run)) return;
  const auto held = std::make_shared<Held>();
  program.by_run.emplace(run.run, Place{run.plan, held});
  held->frame = run;
  held->since_ns = since_ns;
  keep_arguments(program, run, held->kept);
  program.executables[run.plan].runs.push_back(held);
}

// Arguments that are not there yet are outputs of runs that wait before it, and kept later.
void RunsAgain::keep_arguments(const Program& program, const RunFrame& run,
                               std::vector<ArrayId>& kept) {
  for (const ArgumentFrame& argument : run.arguments) {
    if (!argument.bytes.empty() || !tables_.objects.is_there(argument.array, program.session) ||
        std::ranges::find(kept, argument.array) != kept.end())
      continue;
    tables_.objects.keep(argument.array);
    kept.push_back(argument.array);
  }
}

void RunsAgain::drop_kept(std::vector<ArrayId>& kept) {
  for (const ArrayId array : std::exchange(kept, {})) tables_.objects.drop(array);
}

// Calls body(run, kept) for each run that is remembered.
void RunsAgain::for_each_run(Program& program, const RunBody& body) {
  for (auto& [plan, executable] : program.executables) {
    for (const HeldPtr& held : executable.runs) body(held->frame, held->kept);
  }
  for (Waiting& waiting : program.waiting) {
    if (const auto* run = std::get_if<RunFrame>(&waiting.message)) body(*run, waiting.kept);
  }
}

// The versions that a scope may still reach are counted from the runs that are open in it.
std::shared_ptr<void> RunsAgain::counted_open(const Program& program, PlanId plan) const {
  const PlanRecord* const record = plan_of(program, plan);
  if (record == nullptr) return nullptr;
  ++record->scope_runs->open;
  return {nullptr, [scope = record->scope_runs](void*) { --scope->open; }};
}

void RunsAgain::free(SessionId session, const std::vector<ArrayId>& arrays) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  FreeFrame later;
  for (const ArrayId array : arrays) {
    if (program != nullptr && program->to_be_created.erase(array) > 0) {
      later.arrays.push_back(array);
    } else {
      tables_.objects.client_drops(array, session);
    }
  }
  if (!later.arrays.empty()) enqueue(program, std::move(later), {});
}

bool RunsAgain::take_end(SessionId session, RunDoneFrame& done, bool is_stopped) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const auto known = program->by_run.find(done.run);
  if (known == program->by_run.end()) return false;
  const Place place = known->second;
  Executable& executable = program->executables.at(place.plan);
  place.held->ended = std::move(done);
  if (is_stopped && executable.runs.front() != place.held) {
    finish_dropped(*program, place.plan, place.held, Error(*place.held->ended->error));
  } else if (!executable.overflowed) {
    settle(*program, place.plan);
  }
  if (executable.overflowed) {
    end_cancelled(*program, place.plan);
    path_.deadline_moved().wake_all();  // The run table has forgotten the run's time limit.
  }
  if (executable.runs.empty()) executable.dropped.clear();
  if (program->by_run.contains(place.held->frame.run))
    place.held->open = counted_open(*program, place.plan);
  wake(program);
  return true;
}

// Ends runs in their order, up to one that is to be run again.
void RunsAgain::settle(Program& program, PlanId plan) {
  Executable& executable = program.executables.at(plan);
  while (!executable.runs.empty() && executable.runs.front()->ended) {
    const HeldPtr first = executable.runs.front();
    std::optional<Error>& error = first->ended->error;
    const PlanRecord& record = *plan_of(program, plan);
    if (error && error->kind() == ErrorKind::kOverflow && record.may_overflow) {
      const auto before = record.failed.find(first->frame.after);
      if (record.has_commit && before != record.failed.end()) {
        error = before->second;
      } else if (tables_.slices.find(SliceId(record.scope))->is_moving &&
                 path_.recovery().runs_again(program.session, first->frame.run)) {
        error = lost();
      } else {
        executable.overflowed = true;
        return;
      }
    }
    finish(program, plan, first, std::move(*first->ended));
  }
}

void RunsAgain::finish(Program& program, PlanId plan, const HeldPtr& held, RunDoneFrame&& done) {
  std::erase(program.executables.at(plan).runs, held);
  program.by_run.erase(held->frame.run);
  drop_kept(held->kept);
  held->open.reset();
  path_.run_ended_for_good(program.session, std::move(done));
}

// `behind`: the error of the runs that come after it.
void RunsAgain::note_failed(PlanRecord& plan, RunId run, const Error& behind) {
  if (plan.has_commit) plan.failed.insert_or_assign(run, behind);
}

// Ends a run that is not run again. The runs behind it say why.
void RunsAgain::finish_dropped(Program& program, PlanId plan, const HeldPtr& held,
                               const Error& why) {
  PlanRecord& record = *plan_of(program, plan);
  const bool is_behind = program.executables.at(plan).dropped.contains(held->frame.after);
  const Error behind = is_behind ? why : not_committed(record, why);
  if (record.has_commit) program.executables.at(plan).dropped.emplace(held->frame.run, behind);
  note_failed(record, held->frame.run, behind);
  finish(program, plan, held, {.run = held->frame.run, .error = why});
}

// Ends the runs that were cancelled before they could run again, and those behind them.
void RunsAgain::end_cancelled(Program& program, PlanId plan) {
  const std::deque<HeldPtr> runs = program.executables.at(plan).runs;
  for (const HeldPtr& held : runs) {
    if (!held->ended) continue;
    const auto& dropped = program.executables.at(plan).dropped;
    const auto before = dropped.find(held->frame.after);
    if (before != dropped.end()) {
      finish_dropped(program, plan, held, Error(before->second));
    } else if (held->cancelled) {
      finish_dropped(program, plan, held, *held->cancelled);
    }
  }
}

void RunsAgain::fail_all(Program& program, PlanId plan, const Error& why) {
  Executable& executable = program.executables.at(plan);
  executable.overflowed = false;
  const std::deque<HeldPtr> runs = executable.runs;
  for (const HeldPtr& held : runs) {
    PlanRecord& record = *plan_of(program, plan);
    note_failed(record, held->frame.run, not_committed(record, why));
    finish(program, plan, held, {.run = held->frame.run, .error = held->cancelled.value_or(why)});
  }
  program.executables.at(plan).dropped.clear();
  path_.freed();
}

bool RunsAgain::cancel(SessionId session, RunId run, const Error& why) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return false;
  const auto known = program->by_run.find(run);
  if (known == program->by_run.end()) return cancel_waiting(program, run, why);
  const Place place = known->second;
  place.held->cancelled = why;
  if (!place.held->ended) return false;
  if (program->executables.at(place.plan).overflowed) end_cancelled(*program, place.plan);
  path_.freed();
  wake(program);
  return true;
}

std::deque<RunsAgain::Waiting>::iterator RunsAgain::waiting_run(Program& program, RunId run) {
  return std::ranges::find_if(program.waiting, [&](const Waiting& waiting) {
    const auto* frame = std::get_if<RunFrame>(&waiting.message);
    return frame != nullptr && frame->run == run;
  });
}

bool RunsAgain::cancel_waiting(const ProgramPtr& program, RunId run, const Error& why) {
  const auto at = waiting_run(*program, run);
  if (at == program->waiting.end()) return false;
  Waiting cancelled = std::move(*at);
  program->waiting.erase(at);
  const auto& frame = std::get<RunFrame>(cancelled.message);
  for (const ArrayId array : frame.outputs) program->to_be_created.erase(array);
  drop_kept(cancelled.kept);
  PlanRecord* const record = plan_of(*program, frame.plan);
  if (record != nullptr && record->plan != nullptr)
    note_failed(*record, run, not_committed(*record, why));
  path_.run_ended_for_good(program->session, {.run = run, .error = why});
  path_.freed();
  wake(program);
  return true;
}

// Calls body(plan, run, deadline_ns, why) for each run with a time limit that waits here, or is to
// be run again. A run of an executable that is not there, or not compiled yet, is left out: if that
// is still so at its turn, it is refused.
template <class Body>
void RunsAgain::for_each_limited(const Program& program, const Body& body) const {
  const auto visit = [&](const RunFrame& run, int64_t since_ns, const char* why) {
    if (run.time_limit_ms <= 0) return;
    const PlanRecord* const plan = plan_of(program, run.plan);
    if (plan == nullptr || plan->plan == nullptr) return;
    body(*plan, run, since_ns + time_limit_ns(run.time_limit_ms), why);
  };
  for (const Waiting& waiting : program.waiting) {
    if (const auto* run = std::get_if<RunFrame>(&waiting.message))
      visit(*run, waiting.since_ns, ": it still waited for runs that may run again");
  }
  for (const auto& [plan, executable] : program.executables) {
    if (!executable.overflowed) continue;
    for (const HeldPtr& held : executable.runs) {
      if (held->ended && !held->cancelled)
        visit(held->frame, held->since_ns, ": it was to run again with more room");
    }
  }
}

std::optional<int64_t> RunsAgain::next_deadline_ns() const {
  std::optional<int64_t> next;
  for (const auto& [session, program] : programs_) {
    for_each_limited(*program, [&](const auto&, const auto&, int64_t deadline_ns, const char*) {
      next = std::min(next.value_or(INT64_MAX), deadline_ns);
    });
  }
  return next;
}

void RunsAgain::expire(int64_t now_ns) {
  struct Late {
    SessionId session;
    RunId run;
    Error why;
  };
  std::vector<Late> late;
  for (const auto& [session, program] : programs_) {
    for_each_limited(*program, [&](const PlanRecord& plan, const RunFrame& run, int64_t deadline_ns,
                                   const char* why) {
      if (deadline_ns <= now_ns)
        late.push_back({program->session, run.run, past_limit(plan, run.time_limit_ms, why)});
    });
  }
  // A run may have ended with one before it; then cancel() does nothing.
  for (const Late& one : late) cancel(one.session, one.run, one.why);
}

bool RunsAgain::has_run(SessionId session, RunId run) const {
  const ProgramPtr program = program_of(session);
  return program != nullptr &&
         (program->by_run.contains(run) || waiting_run(*program, run) != program->waiting.end());
}

bool RunsAgain::is_needed(const Program& program, PlanId plan) {
  const auto found = program.executables.find(plan);
  if (found != program.executables.end() && !found->second.runs.empty()) return true;
  return program.installing == plan ||
         std::ranges::any_of(program.waiting, [&](const Waiting& waiting) {
           return plan_needed_by(waiting.message) == plan;
         });
}

bool RunsAgain::releases_later(SessionId session, PlanId plan) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return false;
  const bool later = is_needed(*program, plan);
  if (later) {
    program->executables[plan].released = true;
  } else {
    program->executables.erase(plan);
  }
  return later;
}

void RunsAgain::slice_moves(SliceId slice) {
  const ProgramPtr program =
      programs_.empty() ? nullptr : program_of(tables_.slices.find(slice)->owner);
  if (program == nullptr) return;
  for (auto& [plan, executable] : program->executables) {
    const std::deque<HeldPtr> runs = executable.runs;
    for (const HeldPtr& held : runs) {
      if (!held->ended || !path_.recovery().runs_again(program->session, held->frame.run)) continue;
      finish(*program, plan, held,
             {.run = held->frame.run, .error = held->cancelled.value_or(lost())});
    }
    executable.overflowed = executable.overflowed && !executable.runs.empty();
  }
  std::deque<Waiting> waiting = std::exchange(program->waiting, {});
  std::set<ArrayId> held = std::exchange(program->to_be_created, {});
  // An array that one of them frees is there until then.
  for (const Waiting& one : waiting) {
    if (const auto* freed = std::get_if<FreeFrame>(&one.message))
      held.insert(freed->arrays.begin(), freed->arrays.end());
  }
  FreeFrame behind;  // Frees, behind the runs that are deferred, what only they hold.
  for (Waiting& one : waiting) {
    const auto* run = std::get_if<RunFrame>(&one.message);
    if (run != nullptr &&
        (one.refused || path_.recovery().runs_again(program->session, run->run))) {
      std::vector<ArrayId> outputs = run->outputs;
      std::erase_if(outputs, [&](ArrayId array) { return !held.contains(array); });
      if (!one.refused) path_.recovery().are_held(program->session, outputs);
      path_.run_ended_for_good(program->session,
                               {.run = run->run, .error = one.refused.value_or(lost())});
    } else {
      for (const ArrayId array : one.kept) {
        if (tables_.objects.client_keeps(array)) behind.arrays.push_back(array);
      }
      path_.recovery().take_over(program->session, std::move(one.message));
    }
    drop_kept(one.kept);
  }
  if (!behind.arrays.empty()) path_.recovery().take_over(program->session, std::move(behind));
  wake(program);
}

// Nobody waits for what hosts would send any more, and nobody holds what runs that wait will make.
void RunsAgain::detached(SessionId session, const std::set<ArrayId>& taken) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return;
  std::erase_if(program->waiting, [](const Waiting& waiting) {
    const auto* transfer = std::get_if<HostTransferFrame>(&waiting.message);
    return transfer != nullptr && (transfer->kind == HostTransferKind::kGet ||
                                   transfer->kind == HostTransferKind::kReadState);
  });
  FreeFrame freed;
  for (const Waiting& waiting : program->waiting) {
    for (const ArrayId array : created_by(waiting.message)) {
      if (program->to_be_created.contains(array) && !taken.contains(array))
        freed.arrays.push_back(array);
    }
  }
  std::erase_if(program->to_be_created, [&](ArrayId array) { return !taken.contains(array); });
  if (!freed.arrays.empty()) enqueue(program, std::move(freed), {});
}

void RunsAgain::session_closed(SessionId session) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return;
  programs_.erase(session);
  program->is_gone = true;
  for_each_run(*program, [&](const RunFrame&, std::vector<ArrayId>& kept) { drop_kept(kept); });
  program->executables.clear();
  program->by_run.clear();
  program->waiting.clear();
  program->changed.wake_all();
}

void RunsAgain::wake_all() {
  for (const auto& [session, program] : programs_) program->changed.wake_all();
}

size_t RunsAgain::held(SessionId session) const {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return 0;
  size_t held = 0;
  for (const Waiting& waiting : program->waiting)
    held += std::holds_alternative<RunFrame>(waiting.message) ? 1 : 0;
  for (const auto& [plan, executable] : program->executables)
    held += static_cast<size_t>(std::ranges::count_if(
        executable.runs, [](const HeldPtr& one) { return one->ended.has_value(); }));
  return held;
}

size_t RunsAgain::held() const {
  size_t all = 0;
  for (const auto& [session, program] : programs_) all += held(session);
  return all;
}

}  // namespace gangway
